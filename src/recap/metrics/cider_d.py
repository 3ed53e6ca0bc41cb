"""CIDEr-D on token ids (Vedantam et al. 2015, section 3), for a whole batch of captions at once.

An n-gram is packed into one 64-bit key (four ids of 16 bits) and looked up in a hash table, which gives it a number and
its document frequency; a look-up never writes. References are counted once; a batch of candidates is then scored with
about fifty array operations. For n = 1..4, with g(x) the tf-idf vector of the n-grams of x and l the caption lengths:

    CIDEr-D_n(c, r) = 10 exp(-(l(c) - l(r))^2 / (2 sigma^2)) min(g(c), g(r)) . g(r) / (|g(c)| |g(r)|)

averaged over references and n; idf = log(documents / max(1, df)).
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from recap.core.errors import MetricError
from recap.core.files.atomic import atomic_path
from recap.core.hashing import value_hash
from recap.metrics.hashed import HashTable

ORDERS = 4
SIGMA = 6.0
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def pack(tokens: NDArray[np.integer], lengths: Ints) -> NDArray[np.uint64]:
    """Return the n-grams of padded captions as 64-bit keys [R, ORDERS, L]; 0 where a caption has no n-gram.

    Args:
        tokens: [R, L] ids below 65,535 (0 is an ordinary id), rows padded after `lengths`.
        lengths: [R].
    """
    rows, longest = tokens.shape
    # One more than the id, so that no word is the 0 of an absent one.
    words = np.where(np.arange(longest) < lengths[:, None], tokens + 1, 0).astype(np.uint64)
    keys = np.zeros((rows, ORDERS, longest), np.uint64)
    keys[:, 0] = words
    for order in range(1, min(ORDERS, longest)):
        last = words[:, order:]
        longer = (keys[:, order - 1, : longest - order] << np.uint64(16)) | last
        keys[:, order, : longest - order] = np.where(last > 0, longer, 0)
    return keys


def padded(captions: Sequence[Sequence[int]]) -> tuple[Ints, Ints]:
    """Return captions as [R, L] padded with zeros, and their lengths [R]."""
    lengths = np.fromiter(map(len, captions), np.int64, len(captions))
    tokens = np.zeros((len(captions), max(1, int(lengths.max(initial=1)))), np.int64)
    words = np.fromiter(chain.from_iterable(captions), np.int64, int(lengths.sum()))
    tokens[np.arange(tokens.shape[1]) < lengths[:, None]] = words
    if tokens.size and (tokens.min() < 0 or tokens.max() >= 65535):
        raise MetricError("CIDEr-D packs ids of 0 to 65,534; the captions hold others")
    return tokens, lengths


@dataclass(frozen=True)
class DocumentFrequencies:
    """Sorted n-gram keys of each order, the number of documents that contain each, and the number of documents."""

    keys: tuple[NDArray[np.uint64], ...]
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
        grams_of = pack(tokens, lengths)
        for order in range(ORDERS):
            at, column = np.nonzero(grams_of[:, order])
            grams = grams_of[at, order, column]
            known, number = np.unique(grams, return_inverse=True)
            # one pair (n-gram, document) counts once, however often the n-gram occurs in the document
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

    def save(self, path: Path) -> None:
        """Write the table and its hash (12 to 16 bytes an n-gram before compression)."""
        arrays = {f"keys{n}": keys for n, keys in enumerate(self.keys)}
        arrays |= {f"counts{n}": counts.astype(np.uint32) for n, counts in enumerate(self.counts)}
        with atomic_path(path) as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, documents=self.documents, hash=self.hash, **arrays)  # type: ignore[arg-type]

    @classmethod
    def load(cls, path: Path) -> DocumentFrequencies:
        """Read a saved table.

        Raises:
            MetricError: the file is missing, broken, or does not match its hash.
        """
        try:
            with np.load(path, allow_pickle=False) as file:
                keys = tuple(file[f"keys{n}"] for n in range(ORDERS))
                counts = tuple(file[f"counts{n}"].astype(np.int64) for n in range(ORDERS))
                table, saved = cls(keys, counts, int(file["documents"])), str(file["hash"])
        except (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile) as error:
            raise MetricError(f"{path}: no table of document frequencies ({error}); count them again") from error
        if table.hash != saved:
            raise MetricError(f"{path}: the table does not match its hash; delete it and count it again")
        return table


@dataclass(frozen=True)
class _Vectors:
    """Tf-idf vectors of captions, an entry for each n-gram of a caption; line = row * ORDERS + order."""

    line: Ints
    gram: Ints  # number of the n-gram over all orders, -1 for one that no reference has
    weight: Floats
    norms: Floats  # [R * ORDERS]
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
        self._known = HashTable(np.concatenate(self.frequencies.keys))
        counts = np.append(np.concatenate(self.frequencies.counts), 0)  # the last: an n-gram that is in no document
        self._idf = np.log(max(1.0, self.frequencies.documents)) - np.log(np.maximum(1.0, counts))
        self._images = {image: index for index, image in enumerate(sorted(references))}
        ordered = [references[image] for image in sorted(references)]
        sizes = np.array([len(captions) for captions in ordered], np.int64)
        self._sizes = sizes
        vectors = self._vectors([caption for captions in ordered for caption in captions])
        self._lengths = vectors.lengths
        owner = np.repeat(np.arange(len(ordered)), sizes)
        # Entries of one n-gram of one image are adjacent; the pair is found by hash.
        pair = self._pair(owner[vectors.line // ORDERS], vectors.gram)
        by_pair = np.argsort(pair, kind="stable")
        pairs, first = np.unique(pair[by_pair], return_index=True)
        self._pairs, self._first = HashTable(pairs), np.append(first, len(pair))
        line, weight = vectors.line[by_pair], vectors.weight[by_pair]
        norm = vectors.norms[line]
        self._reference, self._weight = line // ORDERS, weight
        self._scaled = weight / np.where(norm == 0, 1, norm)

    def _pair(self, owner: Ints, gram: Ints) -> NDArray[np.uint64]:
        return (owner * len(self._idf) + gram).astype(np.uint64)

    def _vectors(self, captions: Sequence[Sequence[int]]) -> _Vectors:
        """Count and weigh the n-grams of captions."""
        tokens, lengths = padded(captions)
        keys = np.sort(pack(tokens, lengths), axis=-1)  # equal n-grams of a caption are adjacent
        first = np.ones(keys.shape, bool)
        first[..., 1:] = keys[..., 1:] != keys[..., :-1]
        starts = np.flatnonzero(first)
        counts = np.diff(starts, append=keys.size)
        grams = keys.ravel()[starts]
        real = grams != 0
        starts, counts, grams = starts[real], counts[real], grams[real]
        line, gram = starts // keys.shape[-1], self._known.find(grams)
        weight = counts * self._idf[gram]
        norms = np.sqrt(np.bincount(line, weight**2, minlength=len(captions) * ORDERS))
        return _Vectors(line, gram, weight, norms, np.maximum(lengths - 1, 0))

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
        seen = np.flatnonzero(mine.gram >= 0)
        place = self._pairs.find(self._pair(owner[mine.line[seen] // ORDERS], mine.gram[seen]))
        shared = place >= 0  # n-grams that a reference of the image has, too
        seen, place = seen[shared], place[shared]
        low, high = self._first[place], self._first[place + 1]
        entry, times = _ranges(low, high), high - low
        line, weight = np.repeat(mine.line[seen], times), np.repeat(mine.weight[seen], times)
        gap = mine.lengths[line // ORDERS] - self._lengths[self._reference[entry]]
        similarity = np.minimum(weight, self._weight[entry]) * self._scaled[entry] * np.exp(gap**2 / (-2 * SIGMA**2))
        products = np.bincount(line, similarity, minlength=len(candidates) * ORDERS)
        summed = products / np.where(mine.norms == 0, 1, mine.norms)
        return 10.0 * summed.reshape(-1, ORDERS).sum(1) / (ORDERS * self._sizes[owner])


def _ranges(low: Ints, high: Ints) -> Ints:
    """Return the concatenation of arange(low[i], high[i])."""
    lengths = high - low
    offsets = np.repeat(low - (np.cumsum(lengths) - lengths), lengths)
    return np.arange(len(offsets)) + offsets
