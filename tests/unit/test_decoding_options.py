"""Constraints, nucleus sampling, diverse groups, and what a model without numbers does to decoding."""

import pytest
import torch

from helpers.toy_language import BOS, EOS, PAD, STEP, V, all_captions, limits, strip, toy_state
from recap.decoding.beam import beam_search
from recap.decoding.constraints import Rules, constrained
from recap.decoding.diverse import diverse_beam_search
from recap.decoding.sampling import nucleus, sample
from recap.decoding.step import NonFiniteLogits


def search(rules, length=5, seed=0, beam=5):
    state = toy_state(3, length, seed)
    return beam_search(STEP, state, limits(3, length), beam=beam, constraint=constrained(rules))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_no_ngram_is_repeated(n):
    free, _ = search(Rules(EOS))
    tokens, _ = search(Rules(EOS, no_repeated_ngram=n))

    def repeats(row):
        words = [word for word in row.tolist() if word not in (PAD, EOS)]
        grams = [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]
        return len(grams) - len(set(grams))

    best = [repeats(row) for row in tokens[:, 0]]
    assert best == [0, 0, 0]
    if n < 3:
        assert sum(repeats(row) for row in free.flatten(0, 1)) > 0


def test_no_word_follows_itself_and_no_bad_ending():
    tokens, scores = search(Rules(EOS, no_immediate_repeat=True, bad_endings=(3,)))
    for row in tokens[:, 0].tolist():
        words = [word for word in row if word != PAD]
        assert all(a != b or a == EOS for a, b in zip(words, words[1:], strict=False))
        assert words[-2:] != [3, EOS]
    state = toy_state(3, 5)
    known = dict(all_captions(state.select(torch.tensor([0])), 5))
    assert known[strip(tokens[0, 0])] == pytest.approx(scores[0, 0].item(), abs=1e-5)  # scores stay the model's


def test_rules_never_leave_a_beam_without_a_word():
    log_probabilities = torch.full((1, 1, V), -torch.inf)
    log_probabilities[..., 3] = 0.0
    out = Rules(EOS, no_repeated_ngram=1)(torch.tensor([[[3]]]), log_probabilities)
    assert torch.equal(out, log_probabilities)
    assert constrained(Rules(EOS)) is None


def test_nucleus_keeps_the_fewest_likeliest_words():
    p = torch.tensor([[0.1, 0.4, 0.05, 0.45], [0.97, 0.01, 0.01, 0.01]])
    kept = ~nucleus(p.log(), 0.8).isinf()
    assert kept.tolist() == [[False, True, False, True], [True, False, False, False]]
    assert torch.equal(nucleus(p.log(), 1.0), p.log())
    torch.manual_seed(0)
    greedy, _ = beam_search(STEP, toy_state(3, 4), limits(3), beam=1)
    drawn = sample(STEP, toy_state(3, 4), limits(3), samples=4, top_p=1e-6)
    assert (drawn == greedy).all()


def test_diverse_groups():
    first, scores = beam_search(STEP, toy_state(3, 4), limits(3), beam=1)
    free, _ = diverse_beam_search(STEP, toy_state(3, 4), limits(3), groups=3, beam=1, strength=0.0)
    assert all(torch.equal(free[:, group], first[:, 0]) for group in range(3))
    tokens, _ = diverse_beam_search(STEP, toy_state(3, 4), limits(3), groups=3, beam=1, strength=100.0)
    assert torch.equal(tokens[:, 0], first[:, 0])
    for image in range(3):
        assert len(set(tokens[image, :, 0].tolist())) == 3  # the three words that may be said, one a group


@pytest.mark.parametrize("method", ["beam", "sample"])
def test_a_model_without_numbers_names_place_and_images(method):
    state = toy_state(3, 4)
    state.table[1, 2:] = torch.nan
    state.table[..., EOS] = -50.0  # nobody ends before

    def step(tokens, here):
        out, here = STEP(tokens, here)
        return out, here

    with pytest.raises(NonFiniteLogits, match="is NaN, at token 3") as caught:
        if method == "beam":
            beam_search(step, state, limits(3), beam=2)
        else:
            sample(step, state, limits(3), samples=2)
    assert caught.value.images == [1]


def test_a_vocabulary_of_one_word():
    def step(tokens, state):
        return torch.zeros(*tokens.shape, 1), state

    tokens, scores = beam_search(step, toy_state(2, 3), limits(2, max_length=3, eos=0, pad=0), beam=1)
    assert tokens.tolist() == [[[0, 0, 0]]] * 2 and scores.tolist() == [[0.0]] * 2
    assert sample(step, toy_state(2, 3), limits(2, max_length=3, eos=0, pad=0), samples=2).sum() == 0
    with pytest.raises(ValueError, match="beam 2 is wider than the vocabulary of 1 words"):
        beam_search(step, toy_state(2, 3), limits(2), beam=2)


def test_all_samples_finished_at_the_first_word():
    state = toy_state(2, 4)
    state.table[..., EOS] = 50.0
    tokens = sample(STEP, state, limits(2), samples=3)
    assert (tokens[..., 0] == EOS).all() and (tokens[..., 1:] == PAD).all()
    assert BOS not in tokens
