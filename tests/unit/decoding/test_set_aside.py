"""The older form of beam search, against the same search written
with lists, one image and one word at a time."""

import pytest
import torch

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
)
from recap.decoding.beam import beam_search

OLDER = {"finished": "set_aside"}


def by_hand(state, beam, longest):
    """K beams of one image; an ended one is copied to the finished
    and loses its place at the next word."""
    open_beams, finished = [((), 0.0, state, BOS)], []
    for length in range(1, longest + 1):
        options = []
        for words, total, here, last in open_beams:
            out, after = STEP(torch.tensor([[last]]), here)
            options += [
                ((*words, word), total + out[0, 0, word].item(), after, word)
                for word in range(2, V)
            ]
        options = sorted(options, key=lambda option: -option[1])[:beam]
        ended = [option for option in options if option[3] == EOS or length == longest]
        finished += [option[:2] for option in ended]
        open_beams = [option for option in options if option not in ended]
    return sorted(finished, key=lambda each: -each[1])[:beam]


@pytest.mark.parametrize("beam", [1, 2, 3])
def test_it_is_the_search_that_sets_ended_captions_aside(beam):
    together = beam_search(STEP, toy_state(8, 5), batch(8), settings(beam, 5, **OLDER))
    for image in range(8):
        expected = by_hand(toy_state(8, 5).select(torch.tensor([image])), beam, 5)
        assert [strip(row) for row in together.tokens[image]] == [words for words, _ in expected]
        sums = torch.tensor([total for _, total in expected], dtype=torch.float64)
        torch.testing.assert_close(together.scores[image], sums)
        torch.testing.assert_close(together.log_probabilities[image], sums)


def test_no_rank_is_worse_than_with_ended_captions_in_the_beam():
    """An ended caption holds no place, so that more open ones are followed."""
    wide, state = settings(5, 3, **OLDER), toy_state(1, 3)
    assert (
        strip(beam_search(STEP, state, batch(1), wide).tokens[0, 0]) == all_captions(state, 3)[0][0]
    )
    older = beam_search(STEP, toy_state(40, 5), batch(40), settings(2, 5, **OLDER)).scores
    newer = beam_search(STEP, toy_state(40, 5), batch(40), settings(2, 5)).scores
    assert (older >= newer - 1e-9).all()
    assert (older > newer + 1e-9).any()


def test_the_penalty_for_length_chooses_among_all_that_ended():
    whole = toy_state(1, 4, seed=3)
    found = beam_search(STEP, whole, batch(1), settings(3, length_penalty=1.0, **OLDER))
    known = dict(all_captions(whole, 4))
    for row, score in zip(found.tokens[0], found.scores[0], strict=True):
        assert known[strip(row)] / len(strip(row)) == pytest.approx(score.item(), abs=1e-9)
    assert torch.equal(found.scores.sort(1, descending=True).values, found.scores)
    assert (found.tokens[..., 0] != PAD).all()


def test_rules_hold():
    tokens = beam_search(
        STEP,
        toy_state(6, 5),
        batch(6),
        settings(3, 5, rules={"no_immediate_repeat": True}, **OLDER),
    ).tokens
    for row in tokens.flatten(0, 1):
        words = strip(row)
        assert all(a != b for a, b in zip(words, words[1:], strict=False))
