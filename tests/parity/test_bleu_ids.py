"""BLEU-4 on ids against pycocoevalcap's."""

import numpy as np
import pytest
from pycocoevalcap.bleu.bleu import Bleu

from helpers.refusals import refused
from recap.core.errors import MetricError
from recap.metrics.rewards import Bleu4


def test_equal_to_pycocoevalcap():
    rng = np.random.default_rng(0)
    references = {
        i: [rng.integers(0, 6, rng.integers(3, 12)).tolist() for _ in range(4)] for i in range(30)
    }
    candidates = [rng.integers(0, 6, rng.integers(1, 12)).tolist() for _ in range(30)]
    ours = Bleu4(references).score(range(30), candidates)
    as_text = {i: [" ".join(map(str, words)) for words in rows] for i, rows in references.items()}
    hypotheses = {i: [" ".join(map(str, words))] for i, words in enumerate(candidates)}
    theirs = Bleu(4).compute_score(as_text, hypotheses, verbose=0)[1][3]
    np.testing.assert_allclose(ours, theirs, atol=1e-12)
    assert ours.max() > 0.1


def test_empty_candidates_and_references():
    assert Bleu4({1: [[3, 4]]}).score([1], [[]])[0] == pytest.approx(0, abs=1e-6)
    with refused(MetricError, "image 2"):
        Bleu4({2: []}).score([2], [[3]])
