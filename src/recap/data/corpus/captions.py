"""Captions on their way from a data set's files to the corpus file."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from recap.data.corpus.corpus_file import Caption


class Captions(Sequence[Caption]):
    """Captions held as numbers and texts.

    They take a third of the memory of as many `Caption`, and Python's collector, which walks over all lists and objects
    again and again while more are made, finds none here.
    """

    def __init__(self) -> None:
        self._numbers = array("q"), array("q")  # image id and caption id of each
        self._texts: tuple[list[str], ...] = ([], [], [], [])  # file, split, caption and its words

    def extend(self, rows: Iterable[Caption]) -> None:
        """Add captions, whose words have no spaces."""
        images, ids = self._numbers
        files, splits, captions, words = self._texts
        for row in rows:
            images.append(row.image_id)
            ids.append(row.caption_id)
            files.append(row.file)
            splits.append(row.split)
            captions.append(row.caption)
            words.append(" ".join(row.tokens))

    def __len__(self) -> int:
        return len(self._numbers[0])

    def __getitem__(self, place: int) -> Caption:  # type: ignore[override]
        image_id, caption_id = (column[place] for column in self._numbers)
        file, split, caption, words = (texts[place] for texts in self._texts)
        return Caption(image_id, file, split, caption_id, caption, words.split(" "))

    def by_id(self) -> Iterator[Caption]:
        """Yield the captions by rising id."""
        return map(self.__getitem__, np.argsort(np.frombuffer(self._numbers[1], np.int64), kind="stable").tolist())
