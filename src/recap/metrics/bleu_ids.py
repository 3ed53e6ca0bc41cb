"""BLEU-4 of single captions on token ids (Papineni et al. 2002), as a reward."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from recap.core.errors import MetricError

ORDERS = 4
_TINY, _SMALL = 1e-15, 1e-9  # pycocoevalcap's smoothing of captions without a match


class Bleu4:
    """Scores candidates against the references of their images.

    For n = 1..4, p_n = clipped matches / n-grams; BLEU-4 = (p_1 p_2 p_3 p_4)^(1/4) * min(1, exp(1 - r / c)) with c the
    length of the candidate and r that of the reference whose length is closest.

    Args:
        references: image id -> token ids of each reference caption.
    """

    def __init__(self, references: Mapping[int, Sequence[Sequence[int]]]) -> None:
        self._references = references
        self._most: dict[int, Counter[tuple[int, ...]]] = {}

    def score(self, images: Sequence[int], candidates: Sequence[Sequence[int]]) -> NDArray[np.float64]:
        """Return the BLEU-4 of each candidate, [S], on the scale 0..1.

        Raises:
            MetricError: an image has no references here.
        """
        return np.array([self._one(image, list(words)) for image, words in zip(images, candidates, strict=True)])

    def _one(self, image: int, words: list[int]) -> float:
        most = self._counts(image)
        matches, total = [0] * ORDERS, [max(0, len(words) - n) for n in range(ORDERS)]
        for gram, count in _grams(words).items():
            matches[len(gram) - 1] += min(count, most[gram])
        product = math.prod((m + _TINY) / (t + _SMALL) for m, t in zip(matches, total, strict=True))
        closest = min((abs(len(r) - len(words)), len(r)) for r in self._references[image])[1]
        ratio = (len(words) + _TINY) / (closest + _SMALL)
        return product**0.25 * (math.exp(1 - 1 / ratio) if ratio < 1 else 1.0)

    def _counts(self, image: int) -> Counter[tuple[int, ...]]:
        """Return the maximum count of each n-gram in one reference, cached."""
        if image not in self._most:
            if not self._references.get(image):
                raise MetricError(f"image {image} has no reference captions; BLEU cannot score it")
            most: Counter[tuple[int, ...]] = Counter()
            for reference in self._references[image]:
                most |= _grams(reference)
            self._most[image] = most
        return self._most[image]


def _grams(words: Sequence[int]) -> Counter[tuple[int, ...]]:
    return Counter(tuple(words[i : i + n]) for n in range(1, ORDERS + 1) for i in range(len(words) - n + 1))
