"""The reward of single captions on token ids: CIDEr-D (Vedantam et al. 2015, section 3).

It packs an n-gram into one 64-bit key (four ids of 16 bits) and finds its number and document
frequency in a hash table; a batch of candidates is scored with about fifty array operations. The
references of a large set are counted when their images are scored. For n = 1..4, with g(x) the
tf-idf vector of the n-grams of x and l the caption lengths:

    CIDEr-D_n(c, r) = 10 exp(-(l(c) - l(r))^2 / (2 sigma^2)) * cos_n(c, r)
    cos_n(c, r) = min(g(c), g(r)) . g(r) / (|g(c)| |g(r)|)

averaged over references and n; idf = log(documents / max(1, df)). Captions of byte pairs are scored
by their words.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recap.core.errors import MetricError
from recap.data.tokenizer import tokenize
from recap.data.vocabulary import (
    EOS,
    SPECIAL,
    AnyVocabulary,
    BytePairVocabulary,
    CaptionIds,
    joined,
    padded,
    ranges,
)

ORDERS = 4
SIGMA = 6.0
# So many references, as those of validation images, are prepared once (1.5 KB each); more, whenever
# they are scored.
AT_ONCE = 50_000
LARGEST = 65_534  # number that fits into a key
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Keys = NDArray[np.uint64]
_MIX = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio: spreads neighboring keys
# by which a key of four words becomes that of 1 to 4, and the bits of its last word
_SHIFTS = np.array([48, 32, 16, 0], np.uint64)
_LAST = np.uint64(0xFFFF)


def caption_units(
    references: Mapping[int, Sequence[Sequence[int]]], vocabulary: AnyVocabulary | None = None
) -> tuple[CaptionIds, Callable[[list[int]], list[int]]]:
    """Return references in what n-grams are made of,
    and a function that turns a caption into the same.

    These are token ids. Captions of a vocabulary of byte pairs become numbers of the words that the
    pieces spell, so that equal texts score alike. An end token stays.
    """
    if not isinstance(vocabulary, BytePairVocabulary):
        return CaptionIds.of(references), lambda caption: caption
    numbers: dict[str, int] = {}  # of the words of the references
    numbered = defaultdict[int, list[list[int]]](list)
    for image, captions in references.items():
        for caption in captions:
            words = tokenize(vocabulary.decode(caption))
            numbered[image].append(
                [numbers.setdefault(word, len(SPECIAL) + len(numbers)) for word in words]
            )

    def units(caption: list[int]) -> list[int]:
        words = tokenize(vocabulary.decode(caption))
        # A word that no reference has gets a number that is its own within the caption.
        spelled = [numbers.get(word, LARGEST - words.index(word)) for word in words]
        return [*spelled, EOS] if EOS in caption else spelled

    return CaptionIds.of(numbered), units


class HashTable:
    """Place of each of M distinct keys, for thousands at once:
    open addressing, linear probing, at most half full.

    `np.searchsorted` needs no table, but waits for memory at each halving: 20,000 keys among 3.8
    million, as many n-grams as COCO has, take it 190 ms, 37 ms if they are sorted first, and 0.9 ms
    here (one core of an EPYC). The index of pandas takes as long.
    """

    def __init__(self, keys: Keys) -> None:
        bits = max(2, int(2 * max(1, len(keys)) - 1).bit_length() + 1)
        self._shift = np.uint64(64 - bits)
        self._size = 1 << bits
        self._keys = np.append(keys, np.uint64(0))  # the last one marks an empty slot
        self._slots = np.full(self._size, len(keys), np.int32)
        waiting = np.arange(len(keys))
        at = self._home(keys)
        while len(waiting):
            free = np.nonzero(self._slots[at] == len(keys))[0]
            self._slots[at[free]] = waiting[free]  # of two in one slot, the last stays
            left = self._slots[at] != waiting
            waiting, at = waiting[left], (at[left] + 1) % self._size

    def _home(self, keys: Keys) -> NDArray[np.int64]:
        return ((keys * _MIX) >> self._shift).astype(np.int64)

    def find(self, keys: Keys) -> NDArray[np.int64]:
        """Return the place of each key, -1 where it is not in the table."""
        absent = len(self._keys) - 1
        at = self._home(keys)
        found = self._slots[at].astype(np.int64)
        open_ = np.nonzero((self._keys[found] != keys) & (found != absent))[0]
        while len(open_):
            at[open_] = (at[open_] + 1) % self._size
            found[open_] = self._slots[at[open_]]
            there = found[open_]
            open_ = open_[(self._keys[there] != keys[open_]) & (there != absent)]
        found[found == absent] = -1
        return found


def _checked(tokens: NDArray[np.integer]) -> None:
    if len(tokens) and (tokens.min() < 0 or tokens.max() >= 65535):
        raise MetricError("CIDEr-D packs ids of 0 to 65,534; the captions hold others")


@dataclass(frozen=True)
class DocumentFrequencies:
    """Sorted n-gram keys by order, in how many documents each is, and how many there are."""

    keys: tuple[NDArray[np.uint64], ...]
    counts: tuple[Ints, ...]
    documents: int

    @classmethod
    def of(
        cls, references: Mapping[int, Sequence[Sequence[int]]], *, document: str = "image"
    ) -> DocumentFrequencies:
        """Count over reference captions; a document is an `image` or a single `caption`."""
        captions = CaptionIds.of(references)
        _checked(captions.tokens)
        lengths = np.diff(captions.starts)
        documents = np.arange(len(lengths))
        if document == "image":
            per_image = np.diff(captions.first)
            per_image = per_image[per_image > 0]
            documents = np.repeat(np.arange(len(per_image)), per_image)
        grams = _longest_grams(captions.tokens, lengths)
        owners = np.repeat(documents, lengths)
        count = int(documents.max(initial=-1)) + 1
        tables = [_counted(grams, owners, length, count) for length in range(1, ORDERS + 1)]
        return cls(tuple(keys for keys, _ in tables), tuple(counts for _, counts in tables), count)


def _longest_grams(tokens: NDArray[np.integer], lengths: Ints) -> NDArray[np.uint64]:
    """Return the four words that begin at each token as a key,
    the first in the highest bits, 0 past the end."""
    words = tokens.astype(np.uint64) + np.uint64(1)
    # tokens to the caption's end
    left = np.repeat(np.cumsum(lengths), lengths) - np.arange(len(words))
    keys = words << np.uint64(48)
    for place in range(1, ORDERS):
        inside = left[:-place] > place
        keys[:-place][inside] |= words[place:][inside] << np.uint64(48 - 16 * place)
    return keys


def _counted(
    grams: NDArray[np.uint64], owners: Ints, length: int, documents: int
) -> tuple[NDArray[np.uint64], Ints]:
    """Return the n-grams of a length, rising, and the documents
    of each, from keys of four words and owners."""
    grams = grams >> _SHIFTS[length - 1]
    whole = grams & _LAST != 0
    known, places = np.unique(grams[whole], return_inverse=True)
    # one pair (n-gram, document) counts once, however often the n-gram occurs in the document
    pairs = np.unique(places * max(1, documents) + owners[whole])
    return known, np.bincount(pairs // max(1, documents), minlength=len(known))


@dataclass(frozen=True)
class _Vectors:
    """Tf-idf vectors of captions, an entry for each n-gram of a caption.

    Line = row * ORDERS + order.
    """

    line: Ints
    gram: Ints  # number of the n-gram over all orders, -1 for one that no reference has
    weight: Floats
    norms: Floats  # [R * ORDERS]
    lengths: Ints  # [R] number of bigrams, as the published scorer measures length


@dataclass(frozen=True)
class _Prepared:
    """References of images: an entry per n-gram of each, adjacent for one n-gram and image."""

    pairs: HashTable  # of image and n-gram
    first: Ints  # place of a pair's first entry, and the number of entries, [P + 1]
    lengths: Ints  # of the entry's reference, as in `_Vectors`
    weight: Floats
    scaled: Floats  # weight, over the norm of its reference


class CiderD:
    """Scores candidates against the references of their images.

    Document frequencies are theirs by default.
    """

    def __init__(
        self,
        references: Mapping[int, Sequence[Sequence[int]]],
        *,
        frequencies: DocumentFrequencies | None = None,
    ) -> None:
        self._references = CaptionIds.of(references)
        self.frequencies = frequencies or DocumentFrequencies.of(self._references)
        self._known = HashTable(np.concatenate(self.frequencies.keys))
        # the last: an n-gram that is in no document
        counts = np.append(np.concatenate(self.frequencies.counts), 0)
        self._idf = np.log(max(1.0, self.frequencies.documents)) - np.log(np.maximum(1.0, counts))
        self._sizes = np.diff(self._references.first)
        few = self._sizes.sum() <= AT_ONCE
        self._all = self._prepared(np.arange(len(self._references))) if few else None

    def score(self, images: Sequence[int], candidates: Sequence[Sequence[int]]) -> Floats:
        """Return the CIDEr-D of each candidate, [S], on the scale 0..10.

        Both sides have an end token, or neither.
        """
        places = self._references.places(images)
        theirs = self._all or self._prepared(np.unique(places))
        mine = self._vectors(*joined(candidates))
        seen = np.flatnonzero(mine.gram >= 0)
        place = theirs.pairs.find(self._pair(places[mine.line[seen] // ORDERS], mine.gram[seen]))
        shared = place >= 0  # n-grams that a reference of the image has, too
        seen, place = seen[shared], place[shared]
        low, high = theirs.first[place], theirs.first[place + 1]
        entry = ranges(low, high)
        times = high - low
        line = np.repeat(mine.line[seen], times)
        weight = np.repeat(mine.weight[seen], times)
        gap = mine.lengths[line // ORDERS] - theirs.lengths[entry]
        similarity = (
            np.minimum(weight, theirs.weight[entry])
            * theirs.scaled[entry]
            * np.exp(gap**2 / (-2 * SIGMA**2))
        )
        products = np.bincount(line, similarity, minlength=len(candidates) * ORDERS)
        summed = products / np.where(mine.norms == 0, 1, mine.norms)
        return 10.0 * summed.reshape(-1, ORDERS).sum(1) / (ORDERS * self._sizes[places])

    def _prepared(self, places: Ints) -> _Prepared:
        """Count and weigh the n-grams of all references of some images."""
        low, high = self._references.first[places], self._references.first[places + 1]
        vectors = self._vectors(*self._references.flat(ranges(low, high)))
        owner = np.repeat(places, high - low)
        # Entries of one n-gram of one image are adjacent; the pair is found by hash.
        pair = self._pair(owner[vectors.line // ORDERS], vectors.gram)
        by_pair = np.argsort(pair, kind="stable")
        pairs, first = np.unique(pair[by_pair], return_index=True)
        line, weight = vectors.line[by_pair], vectors.weight[by_pair]
        norm = vectors.norms[line]
        scaled = weight / np.where(norm == 0, 1, norm)
        return _Prepared(
            HashTable(pairs),
            np.append(first, len(pair)),
            vectors.lengths[line // ORDERS],
            weight,
            scaled,
        )

    def _pair(self, place: Ints, gram: Ints) -> NDArray[np.uint64]:
        """Return image and n-gram as one number."""
        return (place * len(self._idf) + gram).astype(np.uint64)

    def _vectors(self, lengths: Ints, tokens: NDArray[np.integer]) -> _Vectors:
        """Count and weigh the n-grams of captions, given by length [R] and tokens [N]."""
        _checked(tokens)
        longest = max(1, int(lengths.max(initial=1)))
        grams = padded(lengths, _longest_grams(tokens, lengths), longest=longest).view(np.uint64)
        keys = grams[:, None] >> _SHIFTS[:, None]  # [R, ORDERS, L]
        keys[keys & _LAST == 0] = 0  # past the end
        keys.sort(axis=-1)  # equal n-grams of a caption are adjacent
        first = np.ones(keys.shape, bool)
        first[..., 1:] = keys[..., 1:] != keys[..., :-1]
        starts = np.flatnonzero(first)
        counts = np.diff(starts, append=keys.size)
        found = keys.ravel()[starts]
        real = found != 0
        line = starts[real] // longest
        gram = self._known.find(found[real])
        weight = counts[real] * self._idf[gram]
        norms = np.sqrt(np.bincount(line, weight**2, minlength=len(lengths) * ORDERS))
        return _Vectors(line, gram, weight, norms, np.maximum(lengths - 1, 0))
