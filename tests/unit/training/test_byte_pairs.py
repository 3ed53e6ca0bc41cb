"""Validation and rewards of byte pairs count words, however these are cut into pieces."""

import numpy as np
import pytest
import torch

from helpers.model_cases import build_model
from helpers.training import CONFIG, Store
from recap.data.vocabulary import EOS, PAD, SPECIAL, load_byte_pairs
from recap.evaluation.decode import Candidate, best_texts
from recap.metrics.rewards import CiderD, caption_units
from recap.models.images import InputSpec
from recap.settings import CrossEntropy, DecodingSettings, SelfCritical
from recap.training import run
from recap.training.distributed import Group
from recap.training.objectives import SelfCriticalObjective
from rehearsal.hub import write_byte_pairs

LINES = ["a dog runs on the grass", "the dog and the cat", "a cat sits on the mat"]


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    folder = write_byte_pairs(tmp_path_factory.mktemp("pieces"), LINES * 5)
    return load_byte_pairs(folder.name, inputs=folder.parent, max_length=40)


@pytest.fixture(scope="module")
def references(pairs):
    return {image: [pairs.encode(line.split())] for image, line in enumerate(LINES)}


def letters(pairs, text):
    """Return a text as pieces of one letter each, but for the spaces before words."""
    ids = []
    for character in text:
        ids += [pairs._ids[pairs.tokenizer.token_to_id("Ġ" if character == " " else character)]]
    return ids


def objective_of(pairs, references, **changes):
    torch.manual_seed(0)
    model = build_model(CONFIG, InputSpec({"main": 5}, len(pairs))).eval()
    stage = SelfCritical(epochs=1, learning_rate=0.01, **changes)
    return SelfCriticalObjective(
        model, stage, references=references, max_length=60, vocabulary=pairs
    )


@pytest.mark.parametrize("end", [False, True])
def test_the_reward_of_a_text_is_the_same_however_it_is_cut_unless_it_counts_pieces(
    pairs, references, end
):
    whole, cut = references[0][0], letters(pairs, LINES[0])
    assert whole != cut and pairs.decode(whole) == pairs.decode(cut) == LINES[0]
    tokens = torch.full((1, 2, 60), PAD)
    for row, ids in enumerate((whole, cut)):
        tokens[0, row, : len(ids) + 1] = torch.tensor([*ids, EOS])
    words = objective_of(pairs, references, reward_end_token=end)
    first, second = words.reward([0], tokens)[0].tolist()
    assert first == second > 5
    pieces = objective_of(pairs, references, units="pieces", reward_end_token=end)
    first, second = pieces.reward([0], tokens)[0].tolist()
    assert second < 1 < first


def test_a_validation_scores_a_text_the_same_however_it_is_cut(pairs, references, monkeypatch):
    stage = CrossEntropy(epochs=1, learning_rate=0.01)

    def score(spelled):
        found = {image: [Candidate(spelled(line), 0.0, 0.0)] for image, line in enumerate(LINES)}
        monkeypatch.setattr(run, "decode_candidates", lambda *args, **options: found)
        return run.validator(None, stage, Store(), references, 60, pairs, Group(), "pieces")()

    assert (
        score(lambda line: pairs.encode(line.split()))
        == score(lambda line: letters(pairs, line))
        > 5
    )


def test_words_that_no_reference_has_are_told_apart_within_a_caption(pairs, references):
    """The scores are those of words numbered by hand, the unknown ones among them."""
    texts = ["a dag dag on the grass", "the dag and dug", "dug sits dag"]
    scored, units = caption_units(references, pairs)
    found = CiderD(scored).score([0, 1, 2], [units(pairs.encode(text.split())) for text in texts])
    words = sorted({word for text in (*LINES, *texts) for word in text.split()})
    numbers = {word: number for number, word in enumerate(words, len(SPECIAL))}
    by_hand = CiderD(
        {image: [[numbers[word] for word in line.split()]] for image, line in enumerate(LINES)}
    )
    expected = by_hand.score(
        [0, 1, 2], [[numbers[word] for word in text.split()] for text in texts]
    )
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_punctuation_and_case_do_not_count(pairs, references):
    scored, units = caption_units(references, pairs)
    spelled = letters(pairs, "A dog, runs on the Grass.")
    assert units(spelled) == scored[0][0]
    assert units([*spelled, EOS]) == [*scored[0][0], EOS]


def test_token_ids_of_words_and_captions_without_a_vocabulary_stay_as_they_are(references):
    scored, units = caption_units(references)
    assert dict(scored) == references
    assert units([7, 5, EOS]) == [7, 5, EOS]


def test_the_same_text_is_once_among_the_n_best(pairs):
    whole, other, third = (pairs.encode(text.split()) for text in ("a dog", "a cat", "the cat"))
    ids = enumerate([whole, letters(pairs, "a dog"), other, third])
    candidates = [Candidate(tokens, -float(rank), -float(rank)) for rank, tokens in ids]
    best = best_texts(pairs, candidates, DecodingSettings(beam=4, n_best=2))
    assert {text: candidate.score for text, candidate in best.items()} == {
        "a dog": 0.0,
        "a cat": -2.0,
    }
    assert list(best_texts(pairs, candidates, DecodingSettings(beam=4))) == ["a dog"]
