"""The corpus: one Parquet file a data set, one row a caption; nothing after it knows where images came from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from recap.core.atomic import atomic_path
from recap.core.errors import DataError, nearest
from recap.core.log import say
from recap.core.manifests import value_hash
from recap.data.text import one_line

if TYPE_CHECKING:
    import pyarrow as pa


SPLITS = ("train", "val", "test")
VIEWS = "|"  # parts the files of an example that is seen in several pictures: "frontal.png|lateral.png"
COLUMNS = ("image_id", "file", "split", "caption_id", "caption", "tokens")


@dataclass(frozen=True, slots=True)
class Caption:
    """One caption of one image; ``caption`` is raw, ``tokens`` are its words.

    An example with several views (an X-ray study) is one image, whose ``file`` names them all, parted by VIEWS.
    """

    image_id: int
    file: str
    split: str
    caption_id: int
    caption: str
    tokens: list[str]


def write_corpus(captions: Iterable[Caption], path: Path, *, dataset: str, kind: str, source_sha256: str) -> None:
    """Write captions as a corpus file, sorted by caption id; equal captions give equal bytes.

    Line-break characters inside a caption become a space (a caption must stay one line for the tokenisers behind);
    how many captions that concerned is reported.

    Raises:
        DataError: there are no captions.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = sorted(captions, key=lambda row: row.caption_id)
    if not rows:
        raise DataError(f"{dataset}: no captions to write; correct the annotations")
    texts = [one_line(row.caption) for row in rows]
    changed = sum(text != row.caption for text, row in zip(texts, rows, strict=True))
    if changed:
        say(f"{dataset}: line breaks inside {changed} captions became spaces")
    types = (pa.int64(), pa.string(), pa.string(), pa.int64(), pa.string(), pa.list_(pa.string()))
    values: dict[str, list[Any]] = {name: [getattr(row, name) for row in rows] for name in COLUMNS}
    values["caption"] = texts
    table = pa.table({name: pa.array(values[name], type=kind_) for name, kind_ in zip(COLUMNS, types, strict=True)})
    about = {"dataset": dataset, "kind": kind, "source_sha256": source_sha256}
    about["split_hash"] = value_hash(sorted([image, split] for image, split in {(r.image_id, r.split) for r in rows}))
    about["content_hash"] = _content_hash(table, about)
    table = table.replace_schema_metadata({"recap": json.dumps(about, sort_keys=True)})
    with atomic_path(path) as temporary:
        pq.write_table(table, temporary, compression="zstd", write_page_checksum=True)


class Corpus:
    """A corpus in memory; ``table`` is the Arrow table with the columns of COLUMNS, sorted by caption id."""

    def __init__(self, table: pa.Table, about: Mapping[str, str], path: Path) -> None:
        self.table = table
        self.path = path
        self.dataset = about["dataset"]
        self.kind = about["kind"]
        self.source_sha256 = about["source_sha256"]
        self.split_hash = about["split_hash"]

    @classmethod
    def read(cls, path: str | Path) -> Corpus:
        """Read and verify a corpus file.

        Raises:
            DataError: the file is missing, is no corpus, or its content is not what its hash says.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = Path(path)
        if not path.is_file():
            raise DataError(f"{path}: no such corpus; run `recap data corpus` first")
        try:
            # read_table would do the same through pyarrow.dataset, whose import takes a second
            with pq.ParquetFile(path, page_checksum_verification=True) as file:
                table = file.read().combine_chunks()
            about = json.loads(table.schema.metadata[b"recap"])
            table = table.replace_schema_metadata(None)
            whole = about.pop("content_hash") == _content_hash(table, about)
        except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, AttributeError, MemoryError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise DataError(f"{path}: damaged or no corpus ({reason}); delete it and make it again") from error
        if not whole:
            raise DataError(f"{path}: its content does not match its hash; delete it and make it again")
        return cls(table, about, path)

    @cached_property
    def image_id(self) -> np.ndarray:
        """Image id of each row, int64 [rows]."""
        return self.table["image_id"].to_numpy()

    @cached_property
    def caption_id(self) -> np.ndarray:
        """Caption id of each row, int64 [rows], rising."""
        return self.table["caption_id"].to_numpy()

    @cached_property
    def split(self) -> np.ndarray:
        """Split of each row, str [rows]."""
        return np.asarray(self.table["split"].to_pylist(), dtype=str)

    def rows(self, split: str | None = None) -> np.ndarray:
        """Return the row numbers of a split (all without one), int64, in the order of caption ids.

        Raises:
            DataError: no such split, or nothing in it.
        """
        if split is None:
            return np.arange(len(self.image_id))
        if split not in SPLITS:
            raise DataError(f"{self.path}: no such split as {split!r}; {nearest(split, SPLITS)}")
        rows = np.flatnonzero(self.split == split)
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
        texts = self.table["caption"].take(rows).to_pylist()
        found: dict[int, list[str]] = {image: [] for image in self.image_ids(split)}
        for image, text in zip(self.image_id[rows].tolist(), texts, strict=True):
            found[image].append(text)
        return found

    def files(self) -> dict[int, str]:
        """Return the file of each image id, image ids rising."""
        ids, first = np.unique(self.image_id, return_index=True)
        return dict(zip(ids.tolist(), self.table["file"].take(first).to_pylist(), strict=True))

    def views(self) -> dict[int, list[str]]:
        """Return the files of each image id, one a view; most data sets have one view."""
        return {image: file.split(VIEWS) for image, file in self.files().items()}

    def token_lists(self, caption_ids: Sequence[int] | None = None, split: str | None = None) -> list[list[str]]:
        """Return the words of captions: those of ``caption_ids`` in their order, or all of a split by caption id."""
        rows = self.rows(split) if caption_ids is None else self._rows_of(caption_ids)
        words: list[list[str]] = self.table["tokens"].take(rows).to_pylist()
        return words

    def image_ids_of(self, caption_ids: Sequence[int]) -> list[int]:
        """Return the image id of each caption id, in their order."""
        ids: list[int] = self.image_id[self._rows_of(caption_ids)].tolist()
        return ids

    def _rows_of(self, caption_ids: Sequence[int]) -> np.ndarray:
        wanted = np.asarray(caption_ids, dtype=np.int64)
        rows = np.minimum(np.searchsorted(self.caption_id, wanted), len(self.caption_id) - 1)
        unknown = wanted[self.caption_id[rows] != wanted]
        if len(unknown):
            raise DataError(f"{self.path}: no caption id {unknown[0]}; make the subset again from this corpus")
        return rows


def _content_hash(table: pa.Table, about: Mapping[str, str]) -> str:
    """Return a hash of all values of a table of one chunk a column, and of what is said about it."""
    digest = hashlib.sha256(json.dumps(dict(about), sort_keys=True).encode())
    for name in COLUMNS:
        column = table[name].combine_chunks()
        if name == "tokens":
            digest.update(np.diff(column.offsets.to_numpy()).tobytes())
            column = column.flatten()
        # The bytes of all strings and each one's length say which strings they are.
        for part in _bytes_of(column):
            digest.update(part)
    return digest.hexdigest()


def _bytes_of(column: Any) -> list[bytes]:
    import pyarrow as pa

    if pa.types.is_integer(column.type):
        return [column.to_numpy().tobytes()]
    import pyarrow.compute as pc

    return ["".join(column.to_pylist()).encode(), pc.binary_length(column).to_numpy().tobytes()]
