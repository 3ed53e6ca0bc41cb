"""CIDEr-D on ids against the golden values and against pycocoevalcap."""

from pathlib import Path

import numpy as np
import pytest
from pycocoevalcap.cider.cider import Cider

from recap.core.errors import MetricError
from recap.metrics.cider_d import CiderD, DocumentFrequencies

GOLDEN = np.load(Path(__file__).parent.parent / "golden" / "cider_d.npz")


def golden_captions(end):
    def words(row):
        return [int(token) for token in row if token >= 0] + end

    references = {image: [words(row) for row in rows] for image, rows in enumerate(GOLDEN["in/refs"])}
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
    as_text = {image: [" ".join(map(str, caption)) for caption in captions] for image, captions in references.items()}
    _, theirs = Cider().compute_score(as_text, {image: [" ".join(map(str, c))] for image, c in enumerate(candidates)})
    np.testing.assert_allclose(ours, theirs, atol=1e-9)
    assert ours.max() > 0.1


def test_batch_composition_and_repeats_change_nothing():
    rng = np.random.default_rng(1)
    references = {image: random_captions(rng, 5) for image in range(10)}
    scorer = CiderD(references)
    images = [3, 3, 7, 0, 3]
    candidates = random_captions(rng, 5)
    together = scorer.score(images, candidates)
    alone = [scorer.score([image], [caption])[0] for image, caption in zip(images, candidates, strict=True)]
    np.testing.assert_allclose(together, alone, atol=1e-12)


def test_empty_candidate_scores_zero_and_unknown_image_is_named():
    scorer = CiderD({1: [[4, 5, 6, 7]], 2: [[4, 4]]})
    assert scorer.score([1], [[]])[0] == 0
    with pytest.raises(MetricError, match="image 9 has no reference"):
        scorer.score([9], [[4]])
    with pytest.raises(MetricError, match="image 3 has no reference"):
        CiderD({3: []})
