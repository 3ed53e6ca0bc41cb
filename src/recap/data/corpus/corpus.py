"""The corpus: one Parquet file per data set, one row per caption; later steps need nothing else of a data set."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from recap.core import checksums
from recap.core.errors import DamagedData, DataError, MissingData, first_line, nearest
from recap.data.corpus.corpus_file import (
    COLUMNS,
    SPLITS,
    VIEWS,
    Caption,
    DrawnFrom,
    need_splits,
    schema,
    write_corpus,
)

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["COLUMNS", "SPLITS", "VIEWS", "Caption", "Corpus", "need_splits", "write_corpus"]


class Corpus:
    """A verified corpus file: ids and splits in memory (17 bytes per row), texts read when they are asked for."""

    def __init__(self, path: Path, about: Mapping[str, Any], ids: Mapping[str, np.ndarray]) -> None:
        self.path = path
        self.dataset = about["dataset"]
        self.kind = about["kind"]
        self.source_sha256 = about["source_sha256"]
        self.split_hash = about["split_hash"]
        self.drawn_from = DrawnFrom(*about["drawn_from"]) if "drawn_from" in about else None
        self.image_id = ids["image_id"]  # of each row, int64 [rows]
        self.caption_id = ids["caption_id"]  # of each row, int64 [rows], rising
        self._split = ids["split"]  # of each row, as its place in SPLITS, int8 [rows]

    @classmethod
    def read(cls, path: str | Path) -> Corpus:
        """Read ids and splits of a corpus file, whose hash is that of its folder's `SHA256SUMS`."""
        path = Path(path)
        if not path.is_file():
            raise MissingData(f"{path}: no such corpus; run `recap data corpus` first")
        checksums.check(path)
        pieces: dict[str, list[np.ndarray]] = {"image_id": [], "caption_id": [], "split": []}
        with _opened(path) as file:
            about = json.loads(file.metadata.metadata[b"recap"])
            if not file.schema_arrow.equals(schema()):
                raise DataError(
                    f"{path}: its columns are not those of a corpus; delete it and repeat the command that makes it"
                )
            for number in range(file.num_row_groups):
                table = file.read_row_group(number, columns=["image_id", "caption_id", "split"])
                pieces["image_id"].append(table["image_id"].to_numpy())
                pieces["caption_id"].append(table["caption_id"].to_numpy())
                pieces["split"].append(_codes(table["split"]))
            return cls(path, about, {name: np.concatenate(parts) for name, parts in pieces.items()})

    @cached_property
    def split(self) -> np.ndarray:
        """Split of each row, str [rows]."""
        return np.asarray(SPLITS)[self._split]

    def rows(self, split: str | None = None) -> np.ndarray:
        """Return the row numbers of a split (all without one), int64, in the order of caption ids."""
        if split is None:
            return np.arange(len(self.image_id))
        if split not in SPLITS:
            raise DataError(f"{self.path}: no such split as {split!r}; {nearest(split, SPLITS)}")
        rows = np.flatnonzero(self._split == SPLITS.index(split))
        if not len(rows):
            raise DataError(f"{self.path}: the split {split!r} has no images; correct the annotations")
        return rows

    def image_ids(self, split: str | None = None) -> list[int]:
        """Return the image ids of a split, each once, rising."""
        ids: list[int] = np.unique(self.image_id[self.rows(split)]).tolist()
        return ids

    def caption_ids(self, split: str | None = None) -> list[int]:
        """Return the caption ids of a split, rising."""
        ids: list[int] = self.caption_id[self.rows(split)].tolist()
        return ids

    def captions(self, split: str | None = None) -> dict[int, list[str]]:
        """Return the raw captions of each image of a split: image ids rising, captions by caption id."""
        rows = self.rows(split)
        found: dict[int, list[str]] = {image: [] for image in self.image_ids(split)}
        for image, text in zip(self.image_id[rows].tolist(), self._values("caption", rows), strict=True):
            found[image].append(text)
        return found

    def files(self) -> dict[int, str]:
        """Return the file of each image id, image ids rising."""
        ids, first = np.unique(self.image_id, return_index=True)
        rows, place = np.sort(first), np.argsort(np.argsort(first))
        files = list(self._values("file", rows))
        return dict(zip(ids.tolist(), (files[number] for number in place.tolist()), strict=True))

    def views(self) -> dict[int, list[str]]:
        """Return the files of each image id, one a view; most data sets have one view."""
        return {image: file.split(VIEWS) for image, file in self.files().items()}

    def token_lists(self, caption_ids: Sequence[int] | None = None, split: str | None = None) -> list[list[str]]:
        """Return the words of captions: those of ``caption_ids`` in their order, or all of a split by caption id."""
        if caption_ids is None:
            return list(self.each_token_list(split))
        rows, place = np.unique(self._rows_of(caption_ids), return_inverse=True)
        words = list(self._values("tokens", rows))
        return [words[number] for number in place.tolist()]

    def each_token_list(self, split: str | None = None) -> Iterator[list[str]]:
        """Yield the words of all captions of a split by caption id, in memory that does not grow with their number."""
        return self._values("tokens", self.rows(split))

    def image_ids_of(self, caption_ids: Sequence[int]) -> list[int]:
        """Return the image id of each caption id, in their order."""
        ids: list[int] = self.image_id[self._rows_of(caption_ids)].tolist()
        return ids

    def column(self, name: str, split: str | None = None) -> pa.ChunkedArray:
        """Return a column of a split as Arrow strings, in the order of caption ids."""
        import pyarrow as pa

        return pa.chunked_array(list(self._chunks(name, self.rows(split))), type=schema().field(name).type)

    def _values(self, name: str, rows: np.ndarray) -> Iterator[Any]:
        """Yield the values of a column in rising rows as Python objects, those of a row group at a time."""
        for chunk in self._chunks(name, rows):
            yield from chunk.to_pylist()

    def _chunks(self, name: str, rows: np.ndarray) -> Iterator[pa.Array]:
        """Yield the values of a column in rising rows; row groups without any of them are not read."""
        with _opened(self.path) as file:
            start = 0
            for number in range(file.num_row_groups):
                end = start + file.metadata.row_group(number).num_rows
                wanted = rows[np.searchsorted(rows, start) : np.searchsorted(rows, end)] - start
                if len(wanted):
                    taken = file.read_row_group(number, columns=[name])[name].take(wanted)
                    yield from taken.chunks
                start = end

    def _rows_of(self, caption_ids: Sequence[int]) -> np.ndarray:
        wanted = np.asarray(caption_ids, dtype=np.int64)
        rows = np.minimum(np.searchsorted(self.caption_id, wanted), len(self.caption_id) - 1)
        unknown = wanted[self.caption_id[rows] != wanted]
        if len(unknown):
            raise DataError(f"{self.path}: no caption id {unknown[0]}; make the subset again from this corpus")
        return rows


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open a Parquet file, with its page checksums verified; whatever is wrong with it becomes one sentence."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            yield file
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, AttributeError, MemoryError) as error:
        reason = first_line(error)
        raise DamagedData(
            f"{path}: damaged or no corpus ({reason}); delete it and repeat the command that makes it"
        ) from error


def _codes(splits: pa.ChunkedArray) -> np.ndarray:
    """Return the place of each split in SPLITS, int8."""
    import pyarrow as pa
    import pyarrow.compute as pc

    places = pc.index_in(splits, value_set=pa.array(SPLITS))
    if places.null_count:
        raise ValueError("an unknown split")
    codes: np.ndarray = places.to_numpy().astype(np.int8)
    return codes
