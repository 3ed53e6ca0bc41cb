"""CIDEr-D on token ids (Vedantam et al. 2015, section 3), for a whole batch of captions at once.

An n-gram is packed into one 64-bit key (four ids of 16 bits) and looked up in a sorted table, which gives it a number
and its document frequency. References are counted once; a batch of candidates is then scored with a few array
operations. For n = 1..4, with g(x) the tf-idf vector of the n-grams of x and l the caption lengths:

    CIDEr-D_n(c, r) = 10 exp(-(l(c) - l(r))^2 / (2 sigma^2)) min(g(c), g(r)) . g(r) / (|g(c)| |g(r)|)

averaged over references and n; idf = log(documents / max(1, df)).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recap.core.errors import MetricError
from recap.core.manifests import value_hash

ORDERS = 4
SIGMA = 6.0
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def pack(tokens: NDArray[np.integer], lengths: Ints, order: int) -> tuple[Ints, Ints]:
    """Return the n-grams of padded captions as 64-bit keys and the row each stands in.

    Args:
        tokens: [R, L] ids below 65,535 (0 is an ordinary id), rows padded after `lengths`.
        lengths: [R].
        order: n, 1..4.
    """
    wide = tokens.astype(np.int64) + 1  # so that no id is the 0 of an absent word
    windows = tokens.shape[1] - order + 1
    if windows <= 0:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    keys = np.zeros((len(tokens), windows), np.int64)
    for place in range(order):
        keys = (keys << 16) | wide[:, place : place + windows]
    rows, columns = np.nonzero(np.arange(windows)[None, :] + order <= lengths[:, None])
    return keys[rows, columns], rows


def padded(captions: Sequence[Sequence[int]]) -> tuple[Ints, Ints]:
    """Return captions as [R, L] padded with zeros, and their lengths [R]."""
    lengths = np.array([len(caption) for caption in captions], np.int64)
    tokens = np.zeros((len(captions), max(1, int(lengths.max(initial=1)))), np.int64)
    for row, caption in enumerate(captions):
        tokens[row, : len(caption)] = caption
    if tokens.size and (tokens.min() < 0 or tokens.max() >= 65535):
        raise MetricError("CIDEr-D packs ids of 0 to 65,534; the captions hold others")
    return tokens, lengths


@dataclass(frozen=True)
class DocumentFrequencies:
    """Sorted n-gram keys of each order, in how many documents each stands, and the number of documents."""

    keys: tuple[Ints, ...]
    counts: tuple[Ints, ...]
    documents: int

    @classmethod
    def of(cls, references: dict[int, list[list[int]]], *, document: str = "image") -> DocumentFrequencies:
        """Count over reference captions; a document is an `image` (all its captions) or a single `caption`."""
        rows = [(image, caption) for image in sorted(references) for caption in references[image]]
        tokens, lengths = padded([caption for _, caption in rows])
        if document == "image":
            owners = np.unique([image for image, _ in rows], return_inverse=True)[1].astype(np.int64)
        else:
            owners = np.arange(len(rows), dtype=np.int64)
        keys, counts = [], []
        for order in range(1, ORDERS + 1):
            grams, at = pack(tokens, lengths, order)
            known, number = np.unique(grams, return_inverse=True)
            # one pair (n-gram, document) counts once, however often the n-gram stands in the document
            pairs = np.unique(number.astype(np.int64) * (len(rows) + 1) + owners[at])
            keys.append(known)
            counts.append(np.bincount(pairs // (len(rows) + 1), minlength=len(known)).astype(np.int64))
        return cls(tuple(keys), tuple(counts), int(owners.max(initial=-1)) + 1)

    @property
    def hash(self) -> str:
        """A hash of the table, for signatures."""
        return value_hash(
            [self.documents, [[k.tolist(), c.tolist()] for k, c in zip(self.keys, self.counts, strict=True)]]
        )


@dataclass(frozen=True)
class _Vectors:
    """Tf-idf vectors of captions: one entry an n-gram and row, sorted by row within each order."""

    row: Ints  # caption of the entry
    gram: Ints  # number of the n-gram over all orders; unseen n-grams share -1
    order: Ints
    weight: Floats
    norms: Floats  # [R, ORDERS]
    lengths: Ints  # [R] number of bigrams, as the published scorer measures length


class CiderD:
    """Scores candidates against the references of their images.

    Args:
        references: image id -> token ids of each reference caption.
        frequencies: document frequencies; by default those of `references`.

    Raises:
        MetricError: an image has no reference.
    """

    def __init__(
        self, references: dict[int, list[list[int]]], *, frequencies: DocumentFrequencies | None = None
    ) -> None:
        empty = [image for image, captions in references.items() if not captions]
        if empty:
            raise MetricError(f"image {empty[0]} has no reference caption; CIDEr-D cannot score it")
        self.frequencies = frequencies or DocumentFrequencies.of(references)
        self._starts = np.concatenate([[0], np.cumsum([len(keys) for keys in self.frequencies.keys])])
        self._log_documents = np.log(float(self.frequencies.documents))
        self._images = {image: index for index, image in enumerate(sorted(references))}
        ordered = [references[image] for image in sorted(references)]
        self._first = np.concatenate([[0], np.cumsum([len(captions) for captions in ordered])]).astype(np.int64)
        vectors = self._vectors([caption for captions in ordered for caption in captions])
        by_row = np.argsort(vectors.row, kind="stable")
        self._row, self._gram = vectors.row[by_row], vectors.gram[by_row]
        self._order, self._weight = vectors.order[by_row], vectors.weight[by_row]
        self._norms, self._lengths = vectors.norms, vectors.lengths
        self._entry = np.searchsorted(self._row, self._first)  # first entry of each image

    def _vectors(self, captions: Sequence[Sequence[int]]) -> _Vectors:
        """Count and weigh the n-grams of captions."""
        tokens, lengths = padded(captions)
        parts = []
        norms = np.zeros((len(captions), ORDERS))
        for order in range(1, ORDERS + 1):
            grams, rows = pack(tokens, lengths, order)
            place = np.lexsort((grams, rows))
            grams, rows = grams[place], rows[place]
            first = np.ones(len(grams), bool)
            first[1:] = (grams[1:] != grams[:-1]) | (rows[1:] != rows[:-1])
            starts = np.nonzero(first)[0]
            counts = np.diff(np.append(starts, len(grams)))
            grams, rows = grams[starts], rows[starts]
            known, table = self.frequencies.keys[order - 1], self.frequencies.counts[order - 1]
            found = np.minimum(np.searchsorted(known, grams), max(len(known) - 1, 0))
            seen = known[found] == grams if len(known) else np.zeros(len(grams), bool)
            frequency = np.where(seen, table[found] if len(table) else 0, 0)
            weight = counts * (self._log_documents - np.log(np.maximum(1.0, frequency)))
            norms[:, order - 1] = np.sqrt(np.bincount(rows, weight**2, minlength=len(captions)))
            parts.append(
                (rows, np.where(seen, found + self._starts[order - 1], -1), np.full(len(rows), order - 1), weight)
            )
        row, gram, which, weight = (np.concatenate(column) for column in zip(*parts, strict=True))
        return _Vectors(row, gram, which, weight, norms, np.maximum(lengths - 1, 0))

    def score(self, images: Sequence[int], candidates: Sequence[Sequence[int]]) -> Floats:
        """Return the CIDEr-D of each candidate against its image's references, [S], on the scale 0..10.

        Args:
            images: image id of each candidate.
            candidates: token ids, in the same convention as the references (end token or not).

        Raises:
            MetricError: an image has no references here.
        """
        try:
            owner = np.array([self._images[image] for image in images], np.int64)
        except KeyError as error:
            raise MetricError(f"image {error.args[0]} has no reference captions; CIDEr-D cannot score it") from error
        mine = self._vectors(candidates)
        batch, local = np.unique(owner, return_inverse=True)
        theirs = _ranges(self._entry[batch], self._entry[batch + 1])
        place = np.repeat(np.arange(len(batch)), self._entry[batch + 1] - self._entry[batch])
        total = int(self._starts[-1]) + 1
        # Join the two lists of entries on (image, n-gram); a reference holds an n-gram once, an image up to R times.
        join = place * total + self._gram[theirs]
        order = np.argsort(join, kind="stable")
        theirs, join = theirs[order], join[order]
        keep = mine.gram >= 0
        rows, which, weight = mine.row[keep], mine.order[keep], mine.weight[keep]
        wanted = local[rows] * total + mine.gram[keep]
        low, high = np.searchsorted(join, wanted, "left"), np.searchsorted(join, wanted, "right")
        entry = theirs[_ranges(low, high)]
        times = high - low
        rows, which, weight = np.repeat(rows, times), np.repeat(which, times), np.repeat(weight, times)
        reference = self._row[entry]
        product = np.minimum(weight, self._weight[entry]) * self._weight[entry]
        scale = mine.norms[rows, which] * self._norms[reference, which]
        gap = mine.lengths[rows] - self._lengths[reference]
        similarity = product / np.where(scale == 0, 1, scale) * np.exp(-(gap**2) / (2 * SIGMA**2))
        summed = np.bincount(rows, similarity, minlength=len(candidates))
        return 10.0 * summed / (ORDERS * np.diff(self._first)[owner])


def _ranges(low: Ints, high: Ints) -> Ints:
    """Return the concatenation of arange(low[i], high[i])."""
    lengths = high - low
    offsets = np.repeat(low - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths)
    return np.arange(int(lengths.sum())) + offsets
