"""Pictures of Conceptual Captions:
from a list of addresses to shards of shrunk JPEGs, and to the list of what is left.

Rows are taken in shards, whole or not at all, so that a killed download loses little.
"""

from __future__ import annotations

import hashlib
import io
import os
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, fields
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from recap.core.documents import read_json, write_json
from recap.core.errors import DataError
from recap.core.files import atomic_path, exclusive, reading, writing
from recap.core.hashing import sha256_file
from recap.core.log import log
from recap.core.threads import map_in_threads
from recap.data.datasets.conceptual import SHARD, Record, Row, file_of, read_records, read_tsv
from recap.data.files.download import (
    CHUNK,
    MOST,
    PASSING,
    DownloadError,
    guarded_session,
    reason_of,
)
from recap.data.files.images import BrokenPicture, TooManyPixels, decode_rgb
from recap.settings.datasets import SURVIVORS

if TYPE_CHECKING:
    from requests import Response

OK, NOT_ASKED = "ok", "not asked"
# Failures that asking again will not change; all others are asked again by the next run.
GONE = ("http 404", "http 410", "bad url")
LOCK = ".lock"
MAX_DOWNLOAD = 64 * 2**20
PER_HOST = 16
LONGEST_WAIT = 30.0
LONGEST_JPEG = 65_500  # pixels of a side that libjpeg writes at most
_IN_FLIGHT = 4  # shards
_HEADERS = {
    "User-Agent": "recap (image-caption research; fetches each picture once)",
    "Accept": "image/*,*/*;q=0.5",
}


def download(
    *,
    tsv: Path,
    out: Path,
    min_side: int = 384,
    workers: int = 64,
    attempts: int = 3,
    timeout: float = 30.0,
    backoff: float = 1.0,
    only: Path | None = None,
) -> dict[str, Any]:
    """Fetch the pictures of a TSV into ``out``
    and list what became of each row; the same command continues.

    ``out`` gets ``<shard>/<row>.jpg``, ``survivors.parquet`` (status, error, size and hashes per
    row) and ``survivors.json`` (counts and success rate). A picture that is there with its recorded
    hash is not asked for again, nor a url that is gone (404, 410); other failures are. ``only`` is
    a text file with the number of a row per line, from 0: no others are asked for, and a later run
    with other rows adds theirs.
    """
    next(read_tsv(tsv))  # a TSV that is not there or no TSV is refused before anything is made
    with (
        writing(out / LOCK),
        exclusive(out / LOCK, wait_seconds=0, what=f"the download into {out}"),
    ):
        settings = out / "download.json"
        if settings.exists() and (before := read_json(settings).get("edge")) != min_side:
            raise DataError(
                f"{out}: its pictures were stored with min_side {before}, not {min_side}; use "
                "another folder"
            )
        write_json(settings, {"edge": min_side})
        rows: frozenset[int] | None = None
        if only is not None:
            with reading(
                only,
                DataError,
                missing="correct --only",
                damaged="write the number of a row per line",
            ):
                rows = frozenset(map(int, only.read_text(encoding="ascii").split()))
        run = _Download(out, rows, min_side, workers, attempts, timeout, backoff)
        counts = run.all_rows(tsv)
        result = {**write_survivors(out, tsv), "this_run": counts}
        write_json(out / "survivors.json", result)
    return result


def _shards(
    tsv: Path, out: Path, rows: Collection[int] | None = None
) -> Iterator[list[tuple[Row, Record | None]]]:
    """Yield the rows of each shard of a TSV, or of those with some rows,
    with what was noted of each and its url."""
    chosen = None if rows is None else {number // SHARD for number in rows}
    for shard, group in groupby(read_tsv(tsv), key=lambda row: row.number // SHARD):
        if chosen is None or shard in chosen:
            before = read_shard(out, shard)
            yield [(row, before.get((row.number, row.url))) for row in group]


# ---- records


def shard_path(out: Path, shard: int) -> Path:
    """Return the file with the records of a shard; it is written when the shard is through."""
    return out / "shards" / f"{shard:05d}.parquet"


def read_shard(out: Path, shard: int) -> dict[tuple[int, str], Record]:
    """Return the records of a shard by row and url; none if it was never finished."""
    path = shard_path(out, shard)
    records = read_records(path) if path.exists() else ()
    return {(record.row, record.url): record for record in records}


def write_survivors(out: Path, tsv: Path) -> dict[str, Any]:
    """Join the records of all shards to ``survivors.parquet``, and return their counts.

    A row without a record of its url has the status NOT_ASKED; the success rate is of those that
    were asked for.
    """
    statuses: Counter[str] = Counter()
    sizes: Counter[str] = Counter()  # bytes of each status

    def joined() -> Iterator[list[Record]]:
        for members in _shards(tsv, out):
            records = [record or Record(row.number, row.url, NOT_ASKED) for row, record in members]
            for record in records:
                statuses[record.status] += 1
                sizes[record.status] += record.bytes
            yield records

    write_records(out / SURVIVORS, joined())
    asked = statuses.total() - statuses[NOT_ASKED]
    return {
        "rows": statuses.total(),
        "ok": statuses[OK],
        "bytes": sizes[OK],
        "statuses": dict(statuses),
        "success_rate": round(statuses[OK] / asked, 6) if asked else 0.0,
    }


def write_records(path: Path, groups: Iterable[Sequence[Record]]) -> None:
    """Write records to a Parquet file, atomically."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {"int": pa.int64(), "str": pa.string()}
    schema = pa.schema([(field.name, types[str(field.type)]) for field in fields(Record)])
    with (
        atomic_path(path) as temporary,
        pq.ParquetWriter(temporary, schema, compression="zstd", write_page_checksum=True) as writer,
    ):
        for records in groups:
            writer.write_table(
                pa.Table.from_pylist([asdict(record) for record in records], schema=schema)
            )


# ---- one run


class Failure(Exception):
    """Why a picture is missing: a status, a detail, and whether asking again may help."""

    def __init__(
        self, status: str, detail: str = "", *, passing: bool = False, wait: float | None = None
    ) -> None:
        super().__init__(status)
        self.status = status
        self.detail = " ".join(detail.split())[:200]
        self.passing = passing
        self.wait = wait


@dataclass
class _Download:
    """One run: at most ``workers`` requests at once over all hosts, ``attempts`` per url."""

    out: Path
    rows: Collection[int] | None  # that are asked for; None: all
    min_side: int
    workers: int
    attempts: int
    timeout: float
    backoff: float

    def __post_init__(self) -> None:
        self.counts = {"kept": 0, "fetched": 0, "requests": 0}
        self._counting = threading.Lock()
        self._decoding = threading.Semaphore(os.cpu_count() or 1)
        self._hosts: dict[str | None, threading.Semaphore] = {}
        self._stopped = threading.Event()

    def all_rows(self, tsv: Path) -> dict[str, int]:
        """Ask for all rows, or for some, and write the records of each shard; return what was
        done."""
        ahead = map_in_threads(
            self._record, self._members(tsv), threads=self.workers, depth=_IN_FLIGHT * SHARD
        )
        with closing(ahead) as records:
            try:
                for shard, group in groupby(records, key=lambda record: record.row // SHARD):
                    asked = [record for record in group if record.status != NOT_ASKED]
                    write_records(shard_path(self.out, shard), [asked])
            finally:
                self._stopped.set()
        log.info(f"{tsv.name}: {self.counts['fetched']} fetched, {self.counts['kept']} kept")
        return self.counts

    def _count(self, what: str) -> None:
        with self._counting:
            self.counts[what] += 1

    def _members(self, tsv: Path) -> Iterator[tuple[Row, Record | None]]:
        """Yield the rows of all shards, or of those with some rows, with what earlier runs noted.

        That is a record of the same url whose picture is as it was recorded.
        """
        for members in _shards(tsv, self.out, self.rows):
            for row, record in members:
                if record is not None and record.ok:
                    path = self.out / record.file
                    if not path.is_file() or sha256_file(path) != record.sha256:
                        yield row, None
                        continue
                yield row, record

    def _record(self, member: tuple[Row, Record | None]) -> Record:
        """Fetch one picture and store it, unless that is settled; the record says what became of
        it."""
        row, before = member
        if before is not None and before.ok:
            self._count("kept")
        if before is not None and (before.ok or before.status in GONE):
            return before
        if self.rows is not None and row.number not in self.rows:
            return before or Record(row.number, row.url, NOT_ASKED)
        try:
            record = self._store(row, self._fetch(row.url))
        except Failure as failure:
            (self.out / file_of(row.number)).unlink(missing_ok=True)
            return Record(row.number, row.url, failure.status, failure.detail)
        self._count("fetched")
        return record

    def _store(self, row: Row, content: bytes) -> Record:
        with self._decoding:
            stored, size, original = shrunk(content, min_side=self.min_side)
        file = file_of(row.number)
        source = hashlib.sha256(content).hexdigest()
        with atomic_path(self.out / file) as temporary:
            temporary.write_bytes(stored)
        digest = hashlib.sha256(stored).hexdigest()
        return Record(
            row.number, row.url, OK, "", file, len(stored), digest, *size, *original, source
        )

    def _fetch(self, url: str) -> bytes:
        """Return the bytes behind a url; passing failures are retried after a growing backoff."""
        attempt = 0
        while True:
            try:
                self._count("requests")
                return self._get(url)
            except Failure as failure:
                wait = self.backoff * 2**attempt if failure.wait is None else failure.wait
                attempt += 1
                last = not failure.passing or attempt == self.attempts
                if last or self._stopped.wait(min(wait, LONGEST_WAIT)):
                    raise

    def _get(self, url: str) -> bytes:
        """Return the bytes behind a url; it may redirect a few times, not into this network."""
        import requests
        from requests import exceptions
        from urllib3.exceptions import HTTPError, ReadTimeoutError

        deadline = time.monotonic() + self.timeout
        try:
            host = self._hosts.setdefault(urlsplit(url).hostname, threading.Semaphore(PER_HOST))
            with (
                host,
                guarded_session(url) as session,
                session.get(url, headers=_HEADERS, stream=True, timeout=self.timeout) as answer,
            ):
                return _body(answer, deadline)
        except requests.TooManyRedirects as error:
            raise Failure("redirect", f"more than {MOST} in a row") from error
        except DownloadError as error:
            raise Failure("redirect", str(error)) from error
        except (exceptions.MissingSchema, exceptions.InvalidSchema, exceptions.InvalidURL) as error:
            raise Failure("bad url", str(error)) from error
        except (requests.Timeout, ReadTimeoutError, TimeoutError) as error:
            raise Failure("timeout", "not whole within the time limit", passing=True) from error
        except HTTPError as error:
            raise Failure("cut", reason_of(error), passing=True) from error
        except (requests.RequestException, OSError, ValueError) as error:
            raise Failure("connection", reason_of(error), passing=True) from error


def _body(answer: Response, deadline: float) -> bytes:
    if answer.status_code != 200:
        raise Failure(
            f"http {answer.status_code}",
            answer.reason or "",
            passing=answer.status_code in PASSING,
            wait=_whole(answer, "Retry-After"),
        )
    size = _whole(answer, "Content-Length") or 0
    content = bytearray()
    while size <= MAX_DOWNLOAD and (piece := answer.raw.read1(CHUNK, decode_content=True)):
        content += piece
        size = max(size, len(content))
        if time.monotonic() > deadline:
            raise TimeoutError
    if size > MAX_DOWNLOAD:
        raise Failure("too large", f"more than {MAX_DOWNLOAD} bytes")
    return bytes(content)


def _whole(answer: Response, header: str) -> int | None:
    """Return the number that a header is; None: it is no number, or not there."""
    text = answer.headers.get(header, "")
    return int(text) if text.isascii() and text.isdigit() else None


def shrunk(content: bytes, *, min_side: int) -> tuple[bytes, tuple[int, int], tuple[int, int]]:
    """Return fetched bytes as RGB JPEG without metadata,
    with a shorter side of at most ``min_side`` (0: as it is).

    Beside the JPEG: its width and height, and those before.
    """
    from PIL import Image

    if not content:
        raise Failure("empty", "0 bytes")
    try:
        picture = decode_rgb(content, "picture")
    except TooManyPixels as error:
        raise Failure("too large", str(error)) from error
    except (BrokenPicture, DataError) as error:
        raise Failure("no picture", f"{error}, begins {content[:16]!r}") from error
    original = picture.size
    scale = min_side / min(original)
    if 0 < scale < 1:
        width = max(min_side, round(picture.width * scale))
        height = max(min_side, round(picture.height * scale))
        picture = picture.resize((width, height), Image.Resampling.LANCZOS)
    if max(picture.size) > LONGEST_JPEG:
        raise Failure(
            "too large",
            f"{picture.width} x {picture.height} pixels; a JPEG's side has {LONGEST_JPEG}",
        )
    stored = io.BytesIO()
    picture.save(stored, format="JPEG", quality=95)
    return stored.getvalue(), picture.size, original
