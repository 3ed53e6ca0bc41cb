"""Pictures of Conceptual Captions: from a list of addresses to shards of shrunk JPEGs, and to the list of what is left.

Rows are taken in shards, whole or not at all, so that a killed download loses little; servers are asked politely, and
redirects lead to public addresses alone.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import io
import os
import re
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field, fields
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from recap.core.documents import read_json, write_json
from recap.core.errors import DamagedData, DataError, MissingData
from recap.core.files import atomic_path, exclusive, writing
from recap.core.log import log
from recap.data.files.fetch import MOST, redirect_problem
from recap.data.files.images import BrokenPicture, TooManyPixels, decode_rgb

if TYPE_CHECKING:
    import pyarrow as pa
    from aiohttp import ClientResponse, ClientSession


@dataclass(frozen=True, slots=True)
class Row:
    """One line."""

    number: int
    caption: str
    url: str


def read_tsv(path: Path) -> Iterator[Row]:
    """Yield the rows of a plain or gzipped TSV, one at a time."""
    if not path.is_file():
        raise MissingData(f"{path}: no such TSV; fetch it, or correct the path")
    number = -1
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as lines:
            for number, line in enumerate(lines):
                yield _row(line, number, path)
    except (OSError, EOFError, zlib.error) as error:
        raise DamagedData(f"{path}: cannot be read after line {number + 1} ({error}); fetch it again") from error
    if number < 0:
        raise DataError(f"{path}: the TSV is empty; fetch it again")


def count_rows(path: Path) -> int:
    """Return the number of rows of a TSV; errors as of :func:`read_tsv`."""
    return sum(1 for _ in read_tsv(path))


def _row(line: bytes, number: int, path: Path) -> Row:
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DamagedData(f"{path}: line {number + 1}: not valid UTF-8 ({error}); fetch it again") from error
    parts = text.rstrip("\r\n").split("\t")
    caption, _, url = (part.strip() for part in text.partition("\t"))
    if not (caption and url) and not text.endswith("\n"):
        raise DamagedData(f"{path}: ends within line {number + 1}: the file is cut off; fetch it again")
    if len(parts) != 2:
        fields = "1 field" if len(parts) == 1 else f"{len(parts)} fields"
        raise DataError(f"{path}: line {number + 1}: {fields} where caption TAB url is expected; correct the line")
    if not caption or not url:
        raise DataError(f"{path}: line {number + 1}: the {'url' if caption else 'caption'} is empty; correct the line")
    return Row(number, caption, url)


OK = "ok"
NOT_ASKED = "not asked"
# Failures that asking again will not change; all others are asked again by the next run.
GONE = ("http 404", "http 410", "bad url")
SHARD = 500


@dataclass(frozen=True, slots=True)
class Record:
    """One row of the survivors list; ``status`` is 'ok' or why there is no picture."""

    row: int
    url: str
    status: str
    error: str = ""
    file: str = ""
    bytes: int = 0
    sha256: str = ""
    width: int = 0
    height: int = 0
    original_width: int = 0
    original_height: int = 0
    source_sha256: str = ""

    @property
    def ok(self) -> bool:
        """Whether the picture is there."""
        return self.status == OK


def schema() -> pa.Schema:
    """Return the Arrow schema of shard records and of the survivors list."""
    import pyarrow as pa

    types = {"int": pa.int64(), "str": pa.string()}
    return pa.schema([(field.name, types[str(field.type)]) for field in fields(Record)])


def file_of(row: int) -> str:
    """Return the name of a row's picture below the folder of the download: ``00012/0006123.jpg``."""
    return f"{row // SHARD:05d}/{row:07d}.jpg"


def shard_path(out: Path, shard: int) -> Path:
    """Return the file with the records of a shard; it is written when the shard is through."""
    return out / "shards" / f"{shard:05d}.parquet"


def write_shard(out: Path, shard: int, records: Mapping[int, Record]) -> None:
    """Write the records of a shard, atomically."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.Table.from_pylist([asdict(records[row]) for row in sorted(records)], schema=schema())
    with atomic_path(shard_path(out, shard)) as temporary:
        pq.write_table(table, temporary, compression="zstd", write_page_checksum=True)


def read_shard(out: Path, shard: int) -> dict[int, Record]:
    """Return the records of a shard by row; none if it was never finished."""
    path = shard_path(out, shard)
    return {record.row: record for record in read_records(path)} if path.exists() else {}


def read_records(path: Path) -> Iterator[Record]:
    """Yield the records of a shard or of a survivors list in bounded memory."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    last = -1
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            for batch in file.iter_batches(batch_size=10_000, columns=[field.name for field in fields(Record)]):
                for values in batch.to_pylist():
                    record = Record(**values)
                    if record.row <= last:
                        wrong = "is duplicated" if record.row == last else f"comes after row {last}"
                        raise DataError(f"{path}: row {record.row} {wrong}; delete it and download again")
                    last = record.row
                    yield record
    except FileNotFoundError as error:
        raise MissingData(f"{path}: no such list; run `recap data conceptual-download` first") from error
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        raise DamagedData(f"{path}: damaged or no list of downloads ({error}); delete it and download again") from error


def kept(out: Path, record: Record) -> bool:
    """Say whether a record's picture is there with the bytes that were recorded; a wrong one is removed."""
    path = out / file_of(record.row)
    if not record.ok or not path.is_file():
        return False
    whole = hashlib.sha256(path.read_bytes()).hexdigest() == record.sha256
    if not whole:
        path.unlink()
    return whole


def write_survivors(out: Path, shards: Iterable[tuple[int, Sequence[Row]]]) -> dict[str, Any]:
    """Join the records of all shards to ``survivors.parquet``, count them in ``survivors.json``, return the counts.

    A row without a record of its url has the status NOT_ASKED. The counts: rows, ok, success_rate of those asked for,
    bytes, and statuses.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    statuses: Counter[str] = Counter()
    size = 0
    with (
        atomic_path(out / "survivors.parquet") as temporary,
        pq.ParquetWriter(temporary, schema(), compression="zstd", write_page_checksum=True) as writer,
    ):
        for shard, rows in shards:
            known = read_shard(out, shard)
            records = [_of(row, known.get(row.number)) for row in rows]
            writer.write_table(pa.Table.from_pylist([asdict(record) for record in records], schema=schema()))
            statuses.update(record.status for record in records)
            size += sum(record.bytes for record in records)
    rows_of_all = statuses.total()
    asked = rows_of_all - statuses[NOT_ASKED]
    counts: dict[str, Any] = {"rows": rows_of_all, "ok": statuses[OK], "bytes": size, "statuses": dict(statuses)}
    counts["success_rate"] = round(statuses[OK] / asked, 6) if asked else 0.0
    write_json(out / "survivors.json", counts)
    return counts


def _of(row: Row, known: Record | None) -> Record:
    return known if known is not None and known.url == row.url else Record(row.number, row.url, NOT_ASKED)


MAX_DOWNLOAD = 64 * 2**20
PER_HOST = 16
LONGEST_WAIT = 30.0
LONGEST_JPEG = 65_500  # pixels of a side that libjpeg writes at most
_REDIRECTS = (301, 302, 303, 307, 308)
_PASSING = {408, 425, 429, 500, 502, 503, 504}
_AGENT = "recap (image-caption research; fetches each picture once)"


class Failure(Exception):
    """Why a picture was not had: a status of one or two words, a detail, and whether asking again may help."""

    def __init__(self, status: str, detail: str = "", *, passing: bool = False, wait: float | None = None) -> None:
        super().__init__(status)
        self.status = status
        self.detail = " ".join(detail.split())[:200]
        self.passing = passing
        self.wait = wait


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture ready to be stored: JPEG bytes, their size, and what was fetched."""

    content: bytes
    width: int
    height: int
    original_width: int
    original_height: int
    source_sha256: str


class Web:
    """Asks for pictures, at most ``workers`` at once, each request within ``limit`` seconds."""

    def __init__(self, session: ClientSession, *, workers: int, attempts: int, backoff: float) -> None:
        self.session = session
        self.attempts = attempts
        self.backoff = backoff
        self.asked = 0
        self._free = asyncio.Semaphore(workers)

    async def fetch(self, url: str) -> bytes:
        """Return the bytes behind a url; a failure that may pass is tried again after a growing backoff."""
        for attempt in range(self.attempts):
            try:
                async with self._free:
                    self.asked += 1
                    return await self._get(url)
            except Failure as failure:
                if not failure.passing or attempt + 1 == self.attempts:
                    raise
                wait = self.backoff * 2**attempt if failure.wait is None else failure.wait
                await asyncio.sleep(min(wait, LONGEST_WAIT))
        raise AssertionError("no attempts")

    async def _get(self, url: str) -> bytes:
        import aiohttp

        try:
            return await self._redirected(url)
        except TimeoutError as error:
            raise Failure("timeout", "not whole within the time limit", passing=True) from error
        except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError) as error:
            raise Failure("bad url", _said(error)) from error
        except (aiohttp.ClientPayloadError, aiohttp.ServerDisconnectedError) as error:
            raise Failure("cut", _said(error), passing=True) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise Failure("connection", _said(error), passing=True) from error

    async def _redirected(self, url: str) -> bytes:
        """Return the bytes behind a url, which may name another few times, though not one within this network."""
        target = url
        for _ in range(MOST + 1):
            async with self.session.get(target, allow_redirects=False) as answer:
                if answer.status not in _REDIRECTS or "Location" not in answer.headers:
                    return await _body(answer)
                target = urljoin(str(answer.url), answer.headers["Location"])
            problem = await asyncio.to_thread(redirect_problem, url, target)
            if problem:
                raise Failure("redirect", problem)
        raise Failure("redirect", f"more than {MOST} in a row")


def _said(error: Exception) -> str:
    """Return what an exception says, without addresses of memory, which differ from run to run."""
    return re.sub(r"<?([\w.]+) object at 0x[0-9a-fA-F]+>?", r"\1", str(error)).strip() or type(error).__name__


async def _body(answer: ClientResponse) -> bytes:
    if answer.status != 200:
        seconds = answer.headers.get("Retry-After", "")
        wait = float(seconds) if seconds.isascii() and seconds.isdigit() else None
        passing = answer.status in _PASSING
        raise Failure(f"http {answer.status}", answer.reason or "", passing=passing, wait=wait)
    if (answer.content_length or 0) > MAX_DOWNLOAD:
        raise Failure("too large", f"{answer.content_length} bytes announced")
    content = bytearray()
    async for piece in answer.content.iter_any():
        content += piece
        if len(content) > MAX_DOWNLOAD:
            raise Failure("too large", f"more than {MAX_DOWNLOAD} bytes")
    return bytes(content)


@asynccontextmanager
async def opened_web(*, workers: int, attempts: int, timeout: float, backoff: float) -> AsyncIterator[Web]:
    """Open connections; proxies are taken from the environment.

    Args:
        workers: requests at once over all hosts (at most PER_HOST to one).
        attempts: requests per url, where the failure may pass.
        timeout: seconds for one request from looking up the name to the last byte.
        backoff: seconds before the second try; doubles with every other one, unless the server says how long.
    """
    import aiohttp

    connector = aiohttp.TCPConnector(limit=workers, limit_per_host=PER_HOST, ttl_dns_cache=600)
    async with aiohttp.ClientSession(
        connector=connector,
        timeout=aiohttp.ClientTimeout(total=timeout),
        trust_env=True,
        headers={"User-Agent": _AGENT, "Accept": "image/*,*/*;q=0.5"},
        cookie_jar=aiohttp.DummyCookieJar(),
    ) as session:
        yield Web(session, workers=workers, attempts=attempts, backoff=backoff)


def shrunk(content: bytes, *, min_side: int) -> Picture:
    """Return fetched bytes as RGB JPEG without metadata, with a shorter side of at most ``min_side`` (0: as it is)."""
    from PIL import Image

    if not content:
        raise Failure("empty", "0 bytes")
    try:
        picture = decode_rgb(content, "picture")
    except BrokenPicture as error:
        raise Failure("no picture", f"{error}, begins {content[:16]!r}") from error
    except TooManyPixels as error:
        raise Failure("too large", str(error)) from error
    except DataError as error:
        raise Failure("no picture", str(error)) from error
    original = picture.size
    scale = min_side / min(original)
    if 0 < scale < 1:
        width, height = (max(min_side, round(side * scale)) for side in original)
        picture = picture.resize((width, height), Image.Resampling.LANCZOS)
    if max(picture.size) > LONGEST_JPEG:
        raise Failure("too large", f"{picture.width} x {picture.height} pixels; a JPEG's side has {LONGEST_JPEG}")
    stored = io.BytesIO()
    picture.save(stored, format="JPEG", quality=95)
    return Picture(stored.getvalue(), *picture.size, *original, hashlib.sha256(content).hexdigest())


# A shard with a larger share of fresh failures is asked again, after all others.
FRESH = 0.05
_IN_FLIGHT = 4
LOCK = ".lock"


@dataclass
class _Run:
    """What one run does: its settings, and what it counts."""

    out: Path
    min_side: int
    web: Web
    pool: Executor
    wanted: Collection[int] | None
    counts: dict[str, int] = field(default_factory=lambda: {"kept": 0, "gone": 0, "fetched": 0, "failures": 0})


def download(
    *,
    tsv: Path,
    out: Path,
    min_side: int = 384,
    workers: int = 64,
    attempts: int = 3,
    timeout: float = 30.0,
    backoff: float = 1.0,
    rounds: int = 3,
    only: Path | None = None,
) -> dict[str, Any]:
    """Fetch the pictures of a TSV into ``out`` and list what became of each row; the same command continues.

    A picture that is there with its recorded hash is not asked for again, nor a url that is gone (404, 410). Within a
    run, a shard of SHARD rows more than FRESH of which fail, though they did not in an earlier run, is asked again
    after all others, ``rounds`` times in all.

    Args:
        tsv: one caption TAB url per line, plain or gzipped.
        out: gets ``<shard>/<row>.jpg``, ``survivors.parquet`` (status, error, size and hashes per row) and
            ``survivors.json`` (counts and success rate).
        min_side: shorter side to which larger pictures are shrunk, in pixels; smaller ones are not enlarged. 0: no
            picture is shrunk.
        workers: requests at once.
        attempts, timeout, backoff, rounds: requests per url in a round, seconds per request, seconds before the second
            one (then doubled), rounds per shard.
        only: text file with the number of a row per line, from 0; no others are asked for. A later run with other
            rows adds theirs.
    """
    next(read_tsv(tsv))  # a TSV that is not there or no TSV is refused before anything is made
    with writing(out / LOCK):
        out.mkdir(parents=True, exist_ok=True)
    with exclusive(out / LOCK, wait_seconds=0, what=f"the download into {out}"):
        _same_min_side(out, min_side)
        wanted = None if only is None else _numbers(only)
        web = {"workers": workers, "attempts": attempts, "timeout": timeout, "backoff": backoff}
        counts = asyncio.run(_download(tsv, out, min_side, wanted, rounds, web))
        result = {**write_survivors(out, _shards(tsv)), "this_run": counts}
        write_json(out / "survivors.json", result)
    return result


def _numbers(path: Path) -> frozenset[int]:
    """Read a list of rows."""
    if not path.is_file():
        raise MissingData(f"{path}: no such list of rows; correct --only")
    lines = path.read_text(encoding="utf-8", errors="replace").split()
    if bad := next((line for line in lines if not (line.isascii() and line.isdigit())), None):
        raise DataError(f"{path}: {bad[:40]!r} is no number of a row; write one per line")
    return frozenset(map(int, lines))


async def _download(
    tsv: Path,
    out: Path,
    min_side: int,
    wanted: Collection[int] | None,
    rounds: int,
    web: Mapping[str, Any],
) -> dict[str, int]:
    """Run all rounds; return what was done."""
    again = None if wanted is None else sorted({number // SHARD for number in wanted})
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        async with opened_web(**web) as opened:
            run = _Run(out, min_side, opened, pool, wanted)
            for turn in range(rounds):
                again = await _round(run, _shards(tsv, again), first=turn == 0)
                log.info(
                    f"{tsv.name}: round {turn + 1}: {run.counts['fetched']} fetched, {len(again)} shards to ask again"
                )
                if not again:
                    break
            return {**run.counts, "requests": opened.asked}


def _shards(tsv: Path, wanted: list[int] | None = None) -> Iterator[tuple[int, list[Row]]]:
    """Yield the rows of each shard of a TSV, or of those wanted."""
    chosen = None if wanted is None else set(wanted)
    for shard, rows in groupby(read_tsv(tsv), key=lambda row: row.number // SHARD):
        if chosen is None or shard in chosen:
            yield shard, list(rows)


async def _round(run: _Run, shards: Iterator[tuple[int, list[Row]]], *, first: bool) -> list[int]:
    """Go through shards, a few at once; return those to ask again."""
    busy: set[asyncio.Task[tuple[int, bool]]] = set()
    again = []
    try:
        for shard, rows in shards:
            busy.add(asyncio.create_task(_shard(run, shard, rows, first=first)))
            if len(busy) >= _IN_FLIGHT:
                done, busy = await asyncio.wait(busy, return_when=asyncio.FIRST_COMPLETED)
                again += [task.result()[0] for task in done if task.result()[1]]
        again += [shard for shard, failed in await asyncio.gather(*busy) if failed]
    finally:
        for task in busy:
            task.cancel()
    return sorted(again)


async def _shard(run: _Run, shard: int, rows: list[Row], *, first: bool) -> tuple[int, bool]:
    """Fetch what is missing of a shard and write its records; say whether it should be asked again."""
    loop = asyncio.get_running_loop()
    before = await loop.run_in_executor(run.pool, _whole, run, shard, rows)
    records = {row.number: before[row.number] for row in rows if row.number in before}
    settled = {number for number, record in records.items() if record.ok or record.status in GONE}
    if first:
        run.counts["kept"] += sum(records[number].ok for number in settled)
        run.counts["gone"] += sum(not records[number].ok for number in settled)
    asked = rows if run.wanted is None else [row for row in rows if row.number in run.wanted]
    missing = [row for row in asked if row.number not in settled]
    fetched = await asyncio.gather(*(_record(run, row) for row in missing))
    records.update({record.row: record for record in fetched})
    await loop.run_in_executor(run.pool, write_shard, run.out, shard, records)
    # What failed in an earlier run and fails again is no news; within a run it is asked again.
    known = before.keys() if first else ()
    fresh = sum(not record.ok and record.status not in GONE and record.row not in known for record in fetched)
    run.counts["fetched"] += sum(record.ok for record in fetched)
    run.counts["failures"] += sum(not record.ok for record in fetched)
    return shard, fresh > FRESH * len(asked)


def _whole(run: _Run, shard: int, rows: list[Row]) -> dict[int, Record]:
    """Return the records of earlier runs that still hold: same url, and the picture is there as recorded."""
    for leftover in (run.out / file_of(shard * SHARD)).parent.glob(".*.part"):
        leftover.unlink()
    urls = {row.number: row.url for row in rows}
    before = read_shard(run.out, shard).values()
    same = [record for record in before if urls.get(record.row) == record.url]
    return {record.row: record for record in same if not record.ok or kept(run.out, record)}


async def _record(run: _Run, row: Row) -> Record:
    """Fetch one picture and store it; the record says what became of it."""
    file = file_of(row.number)
    try:
        content = await run.web.fetch(row.url)
        return await asyncio.get_running_loop().run_in_executor(run.pool, _store, run, row, file, content)
    except Failure as failure:
        with suppress(FileNotFoundError):
            (run.out / file).unlink()
        return Record(row.number, row.url, failure.status, failure.detail)


def _store(run: _Run, row: Row, file: str, content: bytes) -> Record:
    picture = shrunk(content, min_side=run.min_side)
    with atomic_path(run.out / file) as temporary:
        temporary.write_bytes(picture.content)
    return Record(
        row=row.number,
        url=row.url,
        status=OK,
        file=file,
        bytes=len(picture.content),
        sha256=sha256(picture.content).hexdigest(),
        width=picture.width,
        height=picture.height,
        original_width=picture.original_width,
        original_height=picture.original_height,
        source_sha256=picture.source_sha256,
    )


def _same_min_side(out: Path, min_side: int) -> None:
    path = out / "download.json"
    if path.exists() and (before := read_json(path).get("edge")) != min_side:
        raise DataError(f"{out}: its pictures were stored with min_side {before}, not {min_side}; use another folder")
    write_json(path, {"edge": min_side})
