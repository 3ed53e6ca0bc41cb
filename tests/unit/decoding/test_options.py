"""Constraints, sampling, and what a model without numbers does to decoding."""

import pytest
import torch

from helpers.toy_language import EOS, PAD, STEP, V, all_captions, batch, settings, strip, toy_state
from recap.decoding.beam import beam_search
from recap.decoding.sampling import sample, sample_one
from recap.decoding.step import NonFiniteLogits, forbid
from recap.settings.recipes import DecodingRules


def found(ending_ids=(), **rules):
    return beam_search(STEP, toy_state(3, 5), batch(3), settings(5, 5, rules=rules), ending_ids)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_no_ngram_is_repeated(n):
    free, tokens = found().tokens, found(no_repeated_ngram=n).tokens

    def repeats(row):
        words = [word for word in row.tolist() if word not in (PAD, EOS)]
        grams = [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]
        return len(grams) - len(set(grams))

    best = [repeats(row) for row in tokens[:, 0]]
    assert best == [0, 0, 0]
    if n < 3:
        assert sum(repeats(row) for row in free.flatten(0, 1)) > 0


def test_no_word_follows_itself_and_no_bad_ending():
    beams = found((3,), no_immediate_repeat=True, bad_endings=["with"])
    for row in beams.tokens[:, 0].tolist():
        words = [word for word in row if word != PAD]
        assert all(a != b or a == EOS for a, b in zip(words, words[1:], strict=False))
        assert words[-2:] != [3, EOS]
    state = toy_state(3, 5)
    known = dict(all_captions(state.select(torch.tensor([0])), 5))
    # the model's own
    assert known[strip(beams.tokens[0, 0])] == pytest.approx(beams.scores[0, 0].item(), abs=1e-5)


def test_rules_never_leave_a_beam_without_a_word():
    log_probabilities = torch.full((1, 1, V), -torch.inf)
    log_probabilities[..., 3] = 0.0
    rules = DecodingRules(no_repeated_ngram=1)
    out = forbid(rules, torch.tensor([[[3]]]), log_probabilities, eos=EOS, bad_endings=())
    assert torch.equal(out, log_probabilities)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_captions_are_drawn_at_a_temperature_and_have_the_log_probabilities_of_the_model(
    temperature,
):
    state = toy_state(1, 3)
    known = dict(all_captions(state, 3))
    options = {"max_length": 3, "samples": 4000, "temperature": temperature}
    tokens, sums = sample_one(STEP, state, batch(1), seed=1, **options)
    drawn = [strip(row) for row in tokens]
    assert sums.tolist() == pytest.approx([known[caption] for caption in drawn])
    first = [row[0].item() for row in tokens]
    exact = (STEP(torch.tensor([[1]]), state)[0][0, 0] / temperature).softmax(-1)
    for token in range(V):
        assert first.count(token) / 4000 == pytest.approx(exact[token].item(), abs=0.03)


def test_draws_depend_on_their_seed_alone_and_leave_the_global_generator_alone():
    options = {"max_length": 4, "samples": 6, "temperature": 1.0}
    torch.manual_seed(5)
    first, _ = sample_one(STEP, toy_state(1, 4), batch(1), seed=1, **options)
    after = torch.rand(1)
    again, _ = sample_one(STEP, toy_state(1, 4), batch(1), seed=1, **options)
    other, _ = sample_one(STEP, toy_state(1, 4), batch(1), seed=2, **options)
    torch.manual_seed(5)
    assert (
        torch.equal(first, again)
        and not torch.equal(first, other)
        and torch.equal(after, torch.rand(1))
    )


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
            beam_search(step, state, batch(3), settings(2))
        else:
            sample(step, state, batch(3), max_length=4, samples=2)
    assert caught.value.images == [1]
