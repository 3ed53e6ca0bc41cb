"""Captions as token ids, of all images of a training: arrays in place of millions of Python objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


class CaptionIds(Mapping[int, list[list[int]]]):
    """Image id -> token ids of each caption; image ids rise, the captions of an image are in the order given."""

    def __init__(self, image_ids: Ints, first: Ints, starts: Ints, tokens: NDArray[np.int32]) -> None:
        self.image_ids = image_ids  # rising [I]
        self.first = first  # place of each image's first caption, and the number of captions [I + 1]
        self.starts = starts  # place in `tokens` of each caption's first token, and the number of tokens [R + 1]
        self.tokens = tokens  # ids of all captions, one after the other, int32 [N]

    @classmethod
    def of(cls, captions: Mapping[int, Sequence[Sequence[int]]]) -> CaptionIds:
        """Return captions that are given as lists, or as they are if they are arrays."""
        if isinstance(captions, CaptionIds):
            return captions
        ids = sorted(captions)
        rows = [row for image in ids for row in captions[image]]
        counts = np.fromiter((len(captions[image]) for image in ids), np.int64, len(ids))
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        tokens = np.fromiter(chain.from_iterable(rows), np.int32, int(lengths.sum()))
        return cls(np.array(ids, np.int64), _starts(counts), _starts(lengths), tokens)

    @classmethod
    def by_image(cls, image_of: Ints, lengths: Ints, tokens: NDArray[np.int32], rows: Ints) -> CaptionIds:
        """Sort some rows of captions, given by image [R], length [R] and tokens [N], by image."""
        rows = rows[np.argsort(image_of[rows], kind="stable")]
        image_ids, counts = np.unique(image_of[rows], return_counts=True)
        starts = _starts(lengths)
        places = ranges(starts[rows], starts[rows + 1])
        return cls(image_ids, _starts(counts), _starts(lengths[rows]), tokens[places])

    def __getitem__(self, image: int) -> list[list[int]]:
        (place,) = self.places([image]).tolist()
        bounds = self.starts[self.first[place] : self.first[place + 1] + 1].tolist()
        return [self.tokens[low:high].tolist() for low, high in zip(bounds, bounds[1:], strict=False)]

    def __iter__(self) -> Iterator[int]:
        return iter(self.image_ids.tolist())

    def __len__(self) -> int:
        return len(self.image_ids)

    def places(self, images: Iterable[int]) -> Ints:
        """Return the places of images in `image_ids`, [B]."""
        wanted = np.asarray(images if isinstance(images, Sequence) else list(images), np.int64)
        places = np.searchsorted(self.image_ids, wanted)
        present = np.append(self.image_ids, -1)[places] == wanted
        if not present.all():
            raise KeyError(int(wanted[~present][0]))
        return places

    def ended(self, token: int) -> CaptionIds:
        """Return the captions with a token after the last of each."""
        tokens = np.insert(self.tokens, self.starts[1:], token)
        return CaptionIds(self.image_ids, self.first, self.starts + np.arange(len(self.starts)), tokens)

    def flat(self, rows: Ints) -> tuple[Ints, NDArray[np.int32]]:
        """Return the lengths [R] and tokens [N] of some captions, given by row."""
        low, high = self.starts[rows], self.starts[rows + 1]
        return high - low, self.tokens[ranges(low, high)]


def padded(lengths: Ints, tokens: NDArray[np.integer], *, longest: int) -> Ints:
    """Return captions, given by length [R] and tokens [N], as [R, longest] with zeros after their tokens."""
    captions = np.zeros((len(lengths), longest), np.int64)
    captions[np.arange(longest) < lengths[:, None]] = tokens
    return captions


def ranges(low: Ints, high: Ints) -> Ints:
    """Return the concatenation of arange(low[i], high[i])."""
    lengths = high - low
    offsets = np.repeat(low - (np.cumsum(lengths) - lengths), lengths)
    return np.arange(len(offsets)) + offsets


def _starts(lengths: Ints) -> Ints:
    return np.concatenate([[0], np.cumsum(lengths)])
