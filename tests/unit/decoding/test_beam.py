"""Beam search and sampling on a toy language model with known probabilities."""

from dataclasses import asdict, replace

import pytest
import torch

from helpers.refusals import refused
from helpers.toy_language import (
    BOS,
    EOS,
    PAD,
    STEP,
    V,
    all_captions,
    batch,
    settings,
    strip,
    toy_state,
    toy_step,
)
from recap.core.errors import ConfigError
from recap.decoding.beam import beam_search
from recap.decoding.sampling import draw, sample
from recap.decoding.step import NonFiniteLogits


def test_wide_beam_is_exhaustive_search():
    state = toy_state(1, 3)
    expected = all_captions(state, 3)
    # 3 words may be said, so 3 ** 2 beams lose nothing before the third word;
    # only 5 fit the vocabulary at the first.
    found = beam_search(STEP, state, batch(1), settings(5, max_length=3))
    assert strip(found.tokens[0, 0]) == expected[0][0]
    assert found.scores.dtype == torch.float64  # the model's
    assert found.scores[0, 0].item() == pytest.approx(expected[0][1], abs=1e-12)


def test_beam_one_is_greedy():
    state = toy_state(4, 4)
    tokens = beam_search(STEP, state, batch(4), settings(1)).tokens
    words, done = torch.full((4, 1), BOS), torch.zeros(4, 1, dtype=torch.bool)
    for place in range(4):
        out, state = STEP(words, state)
        words = torch.where(done, PAD, out.argmax(-1))
        assert torch.equal(tokens[:, 0, place], words[:, 0])
        done |= words == EOS


def test_result_is_independent_of_the_batch():
    together = beam_search(STEP, toy_state(6, 4), batch(6), settings(3))
    whole = toy_state(6, 4)
    for image in range(6):
        one = whole.select(torch.tensor([image]))
        alone = beam_search(STEP, one, batch(1), settings(3))
        assert torch.equal(alone.tokens[0], together.tokens[image])
        torch.testing.assert_close(alone.scores[0], together.scores[image])


@pytest.mark.parametrize("finished", ["stay", "set_aside"])
@pytest.mark.parametrize("beam", [1, 3])
def test_images_that_leave_together_have_the_same_captions(beam, finished):
    options, sizes = settings(beam, 9, finished=finished), set()

    def step(tokens, state):
        sizes.add(len(tokens))
        return STEP(tokens, state)

    apart = beam_search(step, toy_state(40, 9), batch(40), options)
    assert len(sizes) > 3
    sizes.clear()
    together = beam_search(step, toy_state(40, 9), replace(batch(40), together=True), options)
    assert sizes == {40}
    torch.testing.assert_close(asdict(together), asdict(apart), atol=0, rtol=0)


def test_scores_are_the_sum_of_log_probabilities_and_sorted():
    state = toy_state(1, 4, seed=3)
    known = dict(all_captions(state, 4))
    found = beam_search(STEP, state, batch(1), settings(4))
    for row, score in zip(found.tokens[0], found.scores[0], strict=True):
        assert known[strip(row)] == pytest.approx(score.item(), abs=1e-5)
    assert torch.equal(found.scores.sort(1, descending=True).values, found.scores)
    assert torch.equal(found.scores, found.log_probabilities)


def test_length_penalty_prefers_longer_captions():
    state = toy_state(1, 4, seed=3)
    found = beam_search(STEP, state, batch(1), settings(4, length_penalty=1.0))
    known = dict(all_captions(state, 4))
    for row, score, whole in zip(
        found.tokens[0], found.scores[0], found.log_probabilities[0], strict=True
    ):
        assert known[strip(row)] == pytest.approx(whole.item(), abs=1e-5)
        assert known[strip(row)] / len(strip(row)) == pytest.approx(score.item(), abs=1e-5)


def test_too_wide_a_beam_and_nan_are_refused():
    with refused(ConfigError, V + 1, "beam"):
        beam_search(STEP, toy_state(1, 4), batch(1), settings(V + 1))
    state = toy_state(1, 4)
    state.table[:] = torch.nan
    with refused(NonFiniteLogits, "NaN"):
        beam_search(toy_step, state, batch(1), settings(2))


def test_draw_follows_the_distribution_and_skips_impossible_words():
    torch.manual_seed(0)
    probabilities = torch.tensor([0.0, 0.5, 0.0, 0.3, 0.2, 0.0])
    words = draw(probabilities.log().expand(20000, -1))
    shares = torch.bincount(words, minlength=6) / 20000
    assert shares[[0, 2, 5]].sum() == 0
    torch.testing.assert_close(shares, probabilities, atol=0.02, rtol=0)


def test_the_greedy_caption_beside_the_samples_is_that_of_a_search():
    torch.manual_seed(5)
    both = sample(STEP, toy_state(6, 4), batch(6), max_length=4, samples=5, greedy=True)
    best = beam_search(STEP, toy_state(6, 4), batch(6), settings(1)).tokens
    assert both.shape == (6, 6, 4)
    assert torch.equal(both[:, 5:], best)
    assert (both[:, :5] != best).any()


def test_samples_end_once_and_repeat_with_the_seed():
    torch.manual_seed(5)
    first = sample(STEP, toy_state(3, 4), batch(3), max_length=4, samples=7)
    torch.manual_seed(5)
    assert torch.equal(first, sample(STEP, toy_state(3, 4), batch(3), max_length=4, samples=7))
    assert first.shape == (3, 7, 4)
    for row in first.flatten(0, 1).tolist():
        after = row[row.index(EOS) + 1 :] if EOS in row else []
        assert set(after) <= {PAD}
        assert not {PAD, BOS} & set(row[: row.index(EOS)] if EOS in row else row)
