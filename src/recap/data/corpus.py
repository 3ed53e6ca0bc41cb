"""The corpus: one Parquet file per data set, one row per caption;
later steps need nothing else of a data set.

It is written and read row group by row group, so that millions of captions pass through little
memory.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from recap.core import checksums
from recap.core.documents import adapter
from recap.core.errors import DataError, nearest
from recap.core.files import atomic_path, reading
from recap.core.log import log
from recap.core.process import limited_memory
from recap.data.files.images import VIEWS, ImageSource
from recap.data.tokenizer import one_line
from recap.settings.datasets import Dataset, DatasetConfig, PicturesAlone
from recap.settings.kinds import resolve
from recap.settings.params import validate

if TYPE_CHECKING:
    import pyarrow as pa

    from recap.data.datasets.base import Reader

CORPUS = "corpus.parquet"
SPLITS = ("train", "val", "test")
COLUMNS = ("image_id", "file", "split", "caption_id", "caption", "tokens")
# Rows of a row group: what writer and reader hold at once (about 50 MB of Python objects).
ROWS = 50_000


@dataclass(frozen=True, slots=True)
class Caption:
    """One caption of one image; ``caption`` is raw, ``tokens`` are its words.

    An example with several views (an X-ray study) is one image, whose ``file`` names them all,
    separated by VIEWS.
    """

    image_id: int
    file: str
    split: str
    caption_id: int
    caption: str
    tokens: list[str]


class WebSample(NamedTuple):
    """A list of web pictures of which only those that draws need were asked for."""

    rows: int  #: of the list; image and caption ids of the training split are numbers of its rows
    held_out: int  #: rows of the validation split
    seed: int  #: of its draw
    survival: float  #: share of the rows that was expected to have a picture, at least


@limited_memory()
def build_corpus(*, name: str, spec: Any, inputs: Path, out: Path) -> None:
    """Write ``corpus.parquet`` of a data set, and the products
    of its kind (images.zip), into the folder ``out``.

    All files written are listed in the folder's `SHA256SUMS`. Paths in the spec are relative to
    ``inputs``.
    """
    checked: DatasetConfig = validate(Dataset, spec, f"datasets/{name}.yaml")
    read: Reader = resolve(checked.reader)
    captions, source, drawn_from = read(checked, inputs=inputs, out=out, name=name)
    write_corpus(
        captions,
        out / CORPUS,
        dataset=name,
        kind=checked.kind,
        source_sha256=source,
        drawn_from=drawn_from,
        upright=checked.upright,
        complete=not isinstance(checked, PicturesAlone),
    )
    checksums.record(*(out / file for file in (CORPUS, *checked.products)))
    if whole := checked.known_counts():
        warn_of_part(name, len(Corpus.read(out / CORPUS).image_ids()), whole.images, "images")


def warn_of_part(where: str | Path, count: int, whole: int, what: str) -> None:
    """Warn that published data are a part, so that results are not the published ones."""
    if count < whole:
        log.warning(
            f"{where}: {count:,} {what} where {whole:,} are published; fetch it again, unless a "
            "part is meant"
        )


def write_corpus(
    captions: Iterable[Caption],
    path: Path,
    *,
    dataset: str,
    kind: str,
    source_sha256: str,
    drawn_from: WebSample | None = None,
    upright: bool = False,
    complete: bool = False,
) -> None:
    """Write captions as a corpus file, in the order of their ids; equal captions give equal bytes.

    A list is sorted by caption id. Any other iterable is streamed in bounded memory and must rise
    by itself. With ``upright``, pictures are turned by their EXIF data (`pictures_of`). With
    ``complete``, every caption needs a word, and every split an image.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if isinstance(captions, list):
        captions = sorted(captions, key=lambda row: row.caption_id)
    rows = iter(captions)
    about: dict[str, Any] = {"dataset": dataset, "kind": kind, "source_sha256": source_sha256}
    if drawn_from:
        about["drawn_from"] = drawn_from
    if upright:
        about["upright"] = True
    images = [np.empty(0, np.int64)]
    splits = [np.empty(0, "U5")]
    changed = 0
    last = -1
    with (
        atomic_path(path) as temporary,
        pq.ParquetWriter(
            temporary, schema(), compression="zstd", write_page_checksum=True
        ) as writer,
    ):
        while group := list(islice(rows, ROWS)):
            for row in group:
                _check_row(row, last, dataset, complete=complete)
                last = row.caption_id
            images.append(np.array([row.image_id for row in group], np.int64))
            splits.append(np.array([row.split for row in group]))
            # A caption stays one line for the tokenizers behind, which read one a line.
            lines = [one_line(row.caption) for row in group]
            changed += sum(row.caption != line for row, line in zip(group, lines, strict=True))
            columns = {name: list(map(attrgetter(name), group)) for name in COLUMNS}
            columns["caption"] = lines
            writer.write_table(pa.table(columns, schema=schema()), row_group_size=ROWS)
        of_rows = np.concatenate(splits)
        about["split_hash"] = _split_hash(np.concatenate(images), of_rows, dataset)
        if complete:
            _check_splits(of_rows, dataset)
        writer.add_key_value_metadata({"recap": json.dumps(about, sort_keys=True)})
    if changed:
        log.info(f"{dataset}: line breaks inside {changed} captions became spaces")


def _check_row(row: Caption, last: int, dataset: str, *, complete: bool) -> None:
    """Refuse a caption that is wrong after that with the id ``last``."""
    if row.split not in SPLITS:
        wrong = f"there is no split {row.split!r}"
    elif row.caption_id == last:
        wrong = "is duplicated"
    elif row.caption_id < last:
        wrong = f"comes after {last}"
    elif complete and not (row.tokens and row.caption.strip()):
        wrong = f"there is no word in {row.caption!r}"
    else:
        return
    raise DataError(
        f"{dataset}: image id {row.image_id}, caption id {row.caption_id}: {wrong}; correct the "
        "annotations"
    )


def _check_splits(splits: np.ndarray, dataset: str) -> None:
    for split in SPLITS:
        if split not in splits:
            raise DataError(
                f"{dataset}: the split {split!r} has no images; train, val and test each need some"
            )


def _split_hash(images: np.ndarray, splits: np.ndarray, dataset: str) -> str:
    """Return the ``value_hash`` of the sorted pairs of image and split, a pair at a time."""
    unique, first = np.unique(images, return_index=True)
    own = splits[first]  # of each image
    twice = images[own[np.searchsorted(unique, images)] != splits]
    if len(twice):
        of_image = splits[images == twice[0]]
        both = " and ".join(repr(split) for split in SPLITS if split in of_image)
        raise DataError(
            f"{dataset}: image id {twice[0]} is in the splits {both}; take it out of one of them"
        )
    digest = hashlib.sha256(b"[")
    comma = ""
    for image, split in zip(unique, own, strict=True):
        digest.update(f'{comma}[{image},"{split}"]'.encode())
        comma = ","
    digest.update(b"]")
    return digest.hexdigest()[:16]


def schema() -> pa.Schema:
    """Return the Arrow schema of a corpus file."""
    import pyarrow as pa

    types = (pa.int64(), pa.string(), pa.string(), pa.int64(), pa.string(), pa.list_(pa.string()))
    return pa.schema(list(zip(COLUMNS, types, strict=True)))


@dataclass(frozen=True, kw_only=True)
class _About:
    """What a corpus file says of itself."""

    dataset: str
    kind: str
    source_sha256: str
    split_hash: str
    drawn_from: WebSample | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Corpus(_About):
    """A verified corpus file: ids and splits in memory (36 bytes per row), texts on disk."""

    path: Path
    image_id: np.ndarray  # of each row, int64 [rows]
    caption_id: np.ndarray  # of each row, int64 [rows], rising
    split: np.ndarray  # of each row, str [rows]

    @classmethod
    def read(cls, path: str | Path) -> Corpus:
        """Read ids and splits of a corpus file, whose hash is that of its folder's `SHA256SUMS`."""
        import pyarrow as pa
        import pyarrow.compute as pc

        path = Path(path)
        checksums.check(path)
        with _opened(path) as file:
            if not file.schema_arrow.equals(schema()):
                raise ValueError("its columns are not those of a corpus")
            about = adapter(_About).validate_json((file.metadata.metadata or {}).get(b"recap", b""))
            table = file.read(columns=["image_id", "caption_id", "split"])
            places = pc.index_in(table["split"], value_set=pa.array(SPLITS)).to_numpy()
            ids = {name: table[name].to_numpy() for name in ("image_id", "caption_id")}
            return cls(path=path, **vars(about), **ids, split=np.asarray(SPLITS)[places])

    def rows(self, split: str | None = None) -> np.ndarray:
        """Return the row numbers of a split (without one: all), int64, by caption id."""
        if split is None:
            return np.arange(len(self.image_id))
        if split not in self.present():
            raise DataError(
                f"{self.path}: the split {split!r} has no images; {nearest(split, self.present())}"
            )
        return np.flatnonzero(self.split == split)

    def present(self) -> list[str]:
        """Return the splits that have captions."""
        return [split for split in SPLITS if split in self.split]

    def image_ids(self, split: str | None = None) -> list[int]:
        """Return the image ids of a split, each once, rising."""
        return np.unique(self.image_id[self.rows(split)]).tolist()

    def captions(self, split: str | None = None) -> dict[int, list[str]]:
        """Return the raw captions of each image of a split: by image id, then by caption id."""
        rows = self.rows(split)
        captions: dict[int, list[str]] = {image: [] for image in self.image_ids(split)}
        for image, text in zip(
            self.image_id[rows].tolist(), self._values("caption", rows), strict=True
        ):
            captions[image].append(text)
        return captions

    def files(self) -> dict[int, str]:
        """Return the file of each image id, image ids rising."""
        ids, first = np.unique(self.image_id, return_index=True)
        order = np.argsort(first)
        return dict(
            sorted(zip(ids[order].tolist(), self._values("file", first[order]), strict=True))
        )

    def views(self) -> dict[int, list[str]]:
        """Return the files of each image id, one a view; most data sets have one view."""
        return {image: file.split(VIEWS) for image, file in self.files().items()}

    def token_lists(self, split: str | None = None) -> Iterator[list[str]]:
        """Yield the words of all captions of a split by caption id,
        in memory that does not grow with their number."""
        return self._values("tokens", self.rows(split))

    def image_ids_of(self, caption_ids: Sequence[int]) -> list[int]:
        """Return the image id of each caption id, in their order."""
        wanted = np.asarray(caption_ids, dtype=np.int64)
        return self.image_id[np.searchsorted(self.caption_id, wanted)].tolist()

    def column(self, name: str, split: str | None = None) -> pa.ChunkedArray:
        """Return a column of a split as Arrow strings, in the order of caption ids."""
        import pyarrow as pa

        return pa.chunked_array(
            list(self._chunks(name, self.rows(split))), type=schema().field(name).type
        )

    def _values(self, name: str, rows: np.ndarray) -> Iterator[Any]:
        """Yield the values of a column in rising rows as Python objects, a row group at a time."""
        for chunk in self._chunks(name, rows):
            yield from chunk.to_pylist()

    def _chunks(self, name: str, rows: np.ndarray) -> Iterator[pa.Array]:
        """Yield the values of a column in rising rows.

        Row groups without any of them are not read.
        """
        with _opened(self.path) as file:
            start = 0
            for number in range(file.num_row_groups):
                end = start + file.metadata.row_group(number).num_rows
                wanted = rows[np.searchsorted(rows, start) : np.searchsorted(rows, end)] - start
                if len(wanted):
                    yield from file.read_row_group(number, columns=[name])[name].take(wanted).chunks
                start = end


def pictures_of(corpus: Path, roots: Sequence[Path]) -> ImageSource:
    """Return the pictures of a corpus in folders or zips,
    turned by their EXIF data where its data set says so."""
    with _opened(corpus) as file:
        about = json.loads(file.metadata.metadata[b"recap"])
    return ImageSource(roots, upright=about.get("upright", False))


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open a Parquet file with its page checksums verified.

    Whatever is wrong with it becomes one sentence.
    """
    import pyarrow.parquet as pq

    again = "delete it and repeat the command that makes it"
    with (
        reading(path, DataError, missing="run `recap data corpus` first", damaged=again),
        pq.ParquetFile(path, page_checksum_verification=True) as file,
    ):
        yield file
