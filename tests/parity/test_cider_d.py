"""CIDEr-D on ids against the golden values and against pycocoevalcap."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from pycocoevalcap.cider.cider import Cider

from recap.core.errors import MetricError
from recap.metrics.rewards import CiderD, DocumentFrequencies, HashTable

GOLDEN = np.load(Path(__file__).parent.parent / "golden" / "cider_d.npz")


def golden_captions(end):
    def words(row):
        return [int(token) for token in row if token >= 0] + end

    references = {
        image: [words(row) for row in rows] for image, rows in enumerate(GOLDEN["in/refs"])
    }
    return references, [words(row) for row in GOLDEN["in/hyps"]]


@pytest.mark.parametrize(
    ("convention", "end", "document"),
    [("xlan_reward", [0], "image"), ("m2_reward", [], "caption"), ("eval_cider", [], "image")],
)
def test_golden(convention, end, document):
    references, candidates = golden_captions(end)
    frequencies = DocumentFrequencies.of(references, document=document)
    scores = CiderD(references, frequencies=frequencies).score(range(len(candidates)), candidates)
    np.testing.assert_allclose(scores, GOLDEN[f"out/{convention}"], atol=1e-9, rtol=0)


def random_captions(rng, count, words=30):
    return [rng.integers(0, words, rng.integers(0, 12)).tolist() for _ in range(count)]


def test_equal_to_pycocoevalcap_on_random_captions():
    rng = np.random.default_rng(0)
    references = {image: random_captions(rng, rng.integers(1, 6)) for image in range(40)}
    candidates = random_captions(rng, 40)
    ours = CiderD(references).score(range(40), candidates)
    as_text = {
        image: [" ".join(map(str, caption)) for caption in captions]
        for image, captions in references.items()
    }
    _, theirs = Cider().compute_score(
        as_text, {image: [" ".join(map(str, c))] for image, c in enumerate(candidates)}
    )
    np.testing.assert_allclose(ours, theirs, atol=1e-9)
    assert ours.max() > 0.1


def test_batch_composition_and_repeats_change_nothing():
    rng = np.random.default_rng(1)
    references = {image: random_captions(rng, 5) for image in range(10)}
    scorer = CiderD(references)
    images = [3, 3, 7, 0, 3]
    candidates = random_captions(rng, 5)
    together = scorer.score(images, candidates)
    alone = [
        scorer.score([image], [caption])[0]
        for image, caption in zip(images, candidates, strict=True)
    ]
    np.testing.assert_allclose(together, alone, atol=1e-12)


def test_empty_candidate_scores_zero():
    scorer = CiderD({1: [[4, 5, 6, 7]], 2: [[4, 4]]})
    assert scorer.score([1], [[]])[0] == 0


def test_caption_of_only_an_end_token_and_large_ids():
    scorer = CiderD({1: [[65534, 40000, 65534, 65534, 0]], 2: [[0]], 3: [[5, 0]]})
    scores = scorer.score([1, 2, 3, 1], [[65534, 40000, 65534, 65534, 0], [0], [0], [0]])
    assert np.isfinite(scores).all()
    assert scores[0] == pytest.approx(10)
    assert scores[0] > scores[3] >= 0
    with pytest.raises(MetricError, match="ids of 0 to 65,534"):
        scorer.score([1], [[65535]])


@pytest.mark.parametrize("document", ["image", "caption"])
def test_document_frequencies_are_those_of_dictionaries(document):
    rng = np.random.default_rng(4)
    references = {image: random_captions(rng, rng.integers(0, 6)) for image in (7, 3, 20, 5)} | {
        9: [],
        1: [[], [0]],
    }
    counts = [Counter() for _ in range(4)]
    documents = 0
    for image in sorted(references):
        for captions in (
            [references[image]]
            if document == "image"
            else [[caption] for caption in references[image]]
        ):
            documents += bool(captions)
            for n in range(4):
                counts[n].update(
                    {tuple(c[i : i + n + 1]) for c in captions for i in range(len(c) - n)}
                )
    found = DocumentFrequencies.of(references, document=document)
    assert found.documents == documents
    for n, (keys, numbers) in enumerate(zip(found.keys, found.counts, strict=True)):
        assert (np.diff(keys.astype(np.float64)) > 0).all()
        grams = [
            tuple((key >> 16 * (n - i) & 0xFFFF) - 1 for i in range(n + 1)) for key in keys.tolist()
        ]
        assert dict(zip(grams, numbers.tolist(), strict=True)) == counts[n]


def test_references_of_a_large_set_give_the_same_bits_as_those_of_a_small_one(monkeypatch):
    rng = np.random.default_rng(5)
    references = {image: random_captions(rng, rng.integers(1, 6)) for image in range(0, 90, 3)}
    images = rng.choice(list(references), 50).tolist()
    candidates = random_captions(rng, 50, words=33)
    once = CiderD(references).score(images, candidates)
    monkeypatch.setattr("recap.metrics.rewards.AT_ONCE", 10)
    scorer = CiderD(references)
    assert scorer.score(images, candidates).tobytes() == once.tobytes()
    assert scorer.score(images[:3], candidates[:3]).tolist() == once[:3].tolist()


@pytest.mark.parametrize("size", [0, 1, 7, 5000])
def test_hash_table_finds_its_keys_and_no_others(size):
    rng = np.random.default_rng(size)
    keys = np.unique(rng.integers(1, 2**64, 2 * size, dtype=np.uint64))
    inside, outside = keys[::2], keys[1::2]
    table = HashTable(inside)
    np.testing.assert_array_equal(table.find(inside), np.arange(len(inside)))
    assert (table.find(outside) == -1).all()
    assert table.find(np.zeros(1, np.uint64)).tolist() == [-1]
