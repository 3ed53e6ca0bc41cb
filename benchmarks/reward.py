"""The reward of self-critical training: ids to CIDEr-D."""

from __future__ import annotations

import numpy as np
from pycocoevalcap.cider.cider import Cider

from benchmarks.figures import Case
from recap.metrics.cider_d import CiderD

IMAGES, SAMPLES, REFERENCES, WORDS = 50, 5, 5, 2000


def cider_d() -> Case:
    """250 candidates with 5 references each, against pycocoevalcap's scorer on the same words."""
    rng = np.random.default_rng(0)

    def caption() -> list[int]:
        return rng.zipf(1.3, size=rng.integers(8, 17)).clip(max=WORDS).tolist()

    references = {image: [caption() for _ in range(REFERENCES)] for image in range(IMAGES * SAMPLES)}
    candidates = [caption() for _ in range(IMAGES * SAMPLES)]
    scorer, images = CiderD(references), list(range(len(candidates)))
    as_text = {image: [" ".join(map(str, words)) for words in rows] for image, rows in references.items()}
    hypotheses = {image: [" ".join(map(str, words))] for image, words in enumerate(candidates)}

    def ours() -> np.ndarray:
        return scorer.score(images, candidates)

    def reference() -> np.ndarray:
        return Cider().compute_score(as_text, hypotheses)[1]

    difference = np.abs(ours() - reference()).max()
    shapes = f"{len(candidates)} candidates x {REFERENCES} references"
    return Case("reward.cider_d", shapes, ours, reference, f"scores differ by {difference:.0e}")
