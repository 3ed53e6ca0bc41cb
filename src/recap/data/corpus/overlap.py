"""Do the splits of a corpus share images?"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from recap.core.errors import DataError
from recap.core.log import progress
from recap.data.corpus.corpus import SPLITS, Corpus
from recap.data.files.images import ImageSource


def check_overlap(*, corpus: Path, images: Sequence[Path] = ()) -> dict[str, int]:
    """Return the number of images of each split, if no two splits share an image id, a file or (asked for) a picture.

    Args:
        corpus: the corpus file.
        images: folders or zips with the pictures; if given, equal bytes under two names count as shared as well.
    """
    table = Corpus.read(corpus)
    present = [split for split in SPLITS if (table.split == split).any()]
    for place, one in enumerate(present):
        for other in present[place + 1 :]:
            ids = np.intersect1d(table.image_id[table.rows(one)], table.image_id[table.rows(other)])
            _refuse(corpus, one, other, "image ids", set(ids.tolist()))
            _refuse(corpus, one, other, "files", _shared_files(table, one, other))
    if images:
        _refuse_equal_pictures(table, ImageSource(images))
    return {split: len(table.image_ids(split)) for split in present}


def _shared_files(table: Corpus, one: str, other: str) -> set[str]:
    import pyarrow.compute as pc

    files = table.column("file", one)
    return set(files.filter(pc.is_in(files, value_set=table.column("file", other))).to_pylist())


def _refuse(corpus: Path, one: str, other: str, what: str, shared: set[int] | set[str]) -> None:
    if shared:
        first = min(shared)
        raise DataError(
            f"{corpus}: the splits {one!r} and {other!r} share {len(shared)} {what}, first {first}; "
            f"take them out of one split"
        )


def _refuse_equal_pictures(table: Corpus, source: ImageSource) -> None:
    seen: dict[bytes, tuple[str, str]] = {}
    shared: list[str] = []
    split_of = dict(zip(table.image_id.tolist(), table.split.tolist(), strict=True))
    for image, file in progress(table.files().items(), name="pictures", unit="pictures", total=len(split_of)):
        digest = hashlib.sha256(source.read(file)).digest()
        split, first = seen.setdefault(digest, (split_of[image], file))
        if split != split_of[image]:
            shared.append(f"{file} ({split_of[image]}) is {first} ({split})")
    if shared:
        raise DataError(
            f"{table.path}: {len(shared)} pictures have the same bytes as one of another split, first {shared[0]}; "
            f"take them out of one split"
        )
