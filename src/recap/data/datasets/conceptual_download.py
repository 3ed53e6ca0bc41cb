"""Pictures of Conceptual Captions:
from a list of addresses to shards of shrunk JPEGs, and to the list of what is left.

Rows are taken in shards, whole or not at all, so that a killed download loses little.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, fields
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urljoin

from recap.core.documents import read_json, write_json
from recap.core.errors import DataError
from recap.core.files import atomic_path, exclusive, reading, writing
from recap.core.log import log
from recap.data.datasets.conceptual import SHARD, Record, Row, file_of, read_records, read_tsv
from recap.data.files.download import MOST, PASSING, redirect_problem
from recap.data.files.images import BrokenPicture, TooManyPixels, decode_rgb
from recap.settings.datasets import SURVIVORS

if TYPE_CHECKING:
    from aiohttp import ClientResponse

OK, NOT_ASKED = "ok", "not asked"
# Failures that asking again will not change; all others are asked again by the next run.
GONE = ("http 404", "http 410", "bad url")
LOCK = ".lock"
MAX_DOWNLOAD = 64 * 2**20
PER_HOST = 16
LONGEST_WAIT = 30.0
LONGEST_JPEG = 65_500  # pixels of a side that libjpeg writes at most
_IN_FLIGHT = 4  # shards
_REDIRECTS = (301, 302, 303, 307, 308)
_AGENT = "recap (image-caption research; fetches each picture once)"
T = TypeVar("T")


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
        run = _Download(out, min_side, workers=workers, attempts=attempts, backoff=backoff)
        counts = asyncio.run(run.all_rows(tsv, rows, timeout))
        result = {**write_survivors(out, _shards(tsv)), "this_run": counts}
        write_json(out / "survivors.json", result)
    return result


def _shards(tsv: Path, rows: Collection[int] | None = None) -> Iterator[tuple[int, list[Row]]]:
    """Yield the rows of each shard of a TSV, or of those with some rows."""
    chosen = None if rows is None else {number // SHARD for number in rows}
    for shard, group in groupby(read_tsv(tsv), key=lambda row: row.number // SHARD):
        if chosen is None or shard in chosen:
            yield shard, list(group)


# ---- records


def shard_path(out: Path, shard: int) -> Path:
    """Return the file with the records of a shard; it is written when the shard is through."""
    return out / "shards" / f"{shard:05d}.parquet"


def read_shard(out: Path, shard: int) -> dict[int, Record]:
    """Return the records of a shard by row; none if it was never finished."""
    path = shard_path(out, shard)
    return {record.row: record for record in read_records(path)} if path.exists() else {}


def write_survivors(out: Path, shards: Iterable[tuple[int, Sequence[Row]]]) -> dict[str, Any]:
    """Join the records of all shards to ``survivors.parquet``, and return their counts.

    A row without a record of its url has the status NOT_ASKED; the success rate is of those that
    were asked for.
    """
    statuses: Counter[str] = Counter()
    size = 0

    def joined() -> Iterator[list[Record]]:
        nonlocal size
        for shard, rows in shards:
            before = {
                (record.row, record.url): record for record in read_shard(out, shard).values()
            }
            records = [
                before.get((row.number, row.url), Record(row.number, row.url, NOT_ASKED))
                for row in rows
            ]
            statuses.update(record.status for record in records)
            size += sum(record.bytes for record in records)
            yield records

    write_records(out / SURVIVORS, joined())
    asked = statuses.total() - statuses[NOT_ASKED]
    counts = {
        "rows": statuses.total(),
        "ok": statuses[OK],
        "bytes": size,
        "statuses": dict(statuses),
    }
    return {**counts, "success_rate": round(statuses[OK] / asked, 6) if asked else 0.0}


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
        # Addresses of memory differ from run to run.
        detail = re.sub(r"<?([\w.]+) object at 0x[0-9a-fA-F]+>?", r"\1", detail)
        self.status = status
        self.detail = " ".join(detail.split())[:200]
        self.passing = passing
        self.wait = wait


class _Download:
    """One run: at most ``workers`` requests at once over all hosts, ``attempts`` per url."""

    def __init__(
        self, out: Path, min_side: int, *, workers: int, attempts: int, backoff: float
    ) -> None:
        self.out, self.min_side = out, min_side
        self.workers, self.attempts, self.backoff = workers, attempts, backoff
        self.counts = {"kept": 0, "fetched": 0, "requests": 0}

    async def all_rows(
        self, tsv: Path, rows: Collection[int] | None, timeout: float
    ) -> dict[str, int]:
        """Ask for all rows, or for some; return what was done."""
        import aiohttp

        self._free = asyncio.Semaphore(self.workers)
        with ThreadPoolExecutor(max_workers=os.cpu_count()) as self._pool:
            async with aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=self.workers, limit_per_host=PER_HOST, ttl_dns_cache=600
                ),
                # from looking up the name to the last byte
                timeout=aiohttp.ClientTimeout(total=timeout),
                trust_env=True,  # proxies
                headers={"User-Agent": _AGENT, "Accept": "image/*,*/*;q=0.5"},
                cookie_jar=aiohttp.DummyCookieJar(),
            ) as self._session:
                shards = _shards(tsv, rows)

                async def take() -> None:
                    for shard, members in shards:  # which all that run at once share
                        await self._shard(shard, members, rows)

                await asyncio.gather(*(take() for _ in range(_IN_FLIGHT)))
        log.info(f"{tsv.name}: {self.counts['fetched']} fetched, {self.counts['kept']} kept")
        return self.counts

    async def _shard(self, shard: int, members: list[Row], rows: Collection[int] | None) -> None:
        """Fetch what is missing of a shard and write its records."""
        before = await self._threaded(self._intact, shard, members)
        settled = {
            number for number, record in before.items() if record.ok or record.status in GONE
        }
        missing = [
            row
            for row in members
            if row.number not in settled and (rows is None or row.number in rows)
        ]
        fetched = await asyncio.gather(*map(self._record, missing))
        records = before | {record.row: record for record in fetched}
        await self._threaded(
            write_records, shard_path(self.out, shard), [[records[row] for row in sorted(records)]]
        )
        self.counts["kept"] += sum(record.ok for record in before.values())
        self.counts["fetched"] += sum(record.ok for record in fetched)

    def _intact(self, shard: int, members: Sequence[Row]) -> dict[int, Record]:
        """Return the records of earlier runs that still hold: same url, picture as recorded."""
        urls = {row.number: row.url for row in members}
        intact = {}
        for record in read_shard(self.out, shard).values():
            path = self.out / file_of(record.row)
            if (
                record.ok
                and path.is_file()
                and hashlib.sha256(path.read_bytes()).hexdigest() != record.sha256
            ):
                path.unlink()
            if urls.get(record.row) == record.url and (not record.ok or path.is_file()):
                intact[record.row] = record
        return intact

    async def _record(self, row: Row) -> Record:
        """Fetch one picture and store it; the record says what became of it."""
        try:
            return await self._threaded(self._store, row, await self._fetch(row.url))
        except Failure as failure:
            with suppress(FileNotFoundError):
                (self.out / file_of(row.number)).unlink()
            return Record(row.number, row.url, failure.status, failure.detail)

    def _store(self, row: Row, content: bytes) -> Record:
        stored, size, original = shrunk(content, min_side=self.min_side)
        file = file_of(row.number)
        source = hashlib.sha256(content).hexdigest()
        with atomic_path(self.out / file) as temporary:
            temporary.write_bytes(stored)
        digest = hashlib.sha256(stored).hexdigest()
        return Record(
            row.number, row.url, OK, "", file, len(stored), digest, *size, *original, source
        )

    async def _threaded(self, function: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, function, *arguments)

    async def _fetch(self, url: str) -> bytes:
        """Return the bytes behind a url; passing failures are retried after a growing backoff."""
        attempt = 0
        while True:
            try:
                async with self._free:
                    self.counts["requests"] += 1
                    return await self._get(url)
            except Failure as failure:
                wait = self.backoff * 2**attempt if failure.wait is None else failure.wait
                attempt += 1
                if not failure.passing or attempt == self.attempts:
                    raise
            await asyncio.sleep(min(wait, LONGEST_WAIT))

    async def _get(self, url: str) -> bytes:
        """Return the bytes behind a url; it may redirect a few times, not into this network."""
        import aiohttp

        target = url
        try:
            for _ in range(MOST + 1):
                async with self._session.get(target, allow_redirects=False) as answer:
                    if answer.status not in _REDIRECTS or "Location" not in answer.headers:
                        return await _body(answer)
                    target = urljoin(str(answer.url), answer.headers["Location"])
                problem = await asyncio.to_thread(redirect_problem, url, target)
                if problem:
                    raise Failure("redirect", problem)
        except TimeoutError as error:
            raise Failure("timeout", "not whole within the time limit", passing=True) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            status = "connection"
            if isinstance(error, (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError)):
                status = "bad url"
            elif isinstance(error, (aiohttp.ClientPayloadError, aiohttp.ServerDisconnectedError)):
                status = "cut"
            text = str(error) or type(error).__name__
            raise Failure(status, text, passing=status != "bad url") from error
        raise Failure("redirect", f"more than {MOST} in a row")


async def _body(answer: ClientResponse) -> bytes:
    if answer.status != 200:
        seconds = answer.headers.get("Retry-After", "")
        wait = float(seconds) if seconds.isascii() and seconds.isdigit() else None
        raise Failure(
            f"http {answer.status}",
            answer.reason or "",
            passing=answer.status in PASSING,
            wait=wait,
        )
    content = bytearray()
    async for piece in answer.content.iter_any():
        content += piece
        if max(len(content), answer.content_length or 0) > MAX_DOWNLOAD:
            raise Failure("too large", f"more than {MAX_DOWNLOAD} bytes")
    return bytes(content)


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
