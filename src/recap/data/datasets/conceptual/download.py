"""From a Conceptual Captions TSV to pictures: shards, rounds, and what a second run leaves alone.

img2dataset would be the known tool for this. It cannot be installed beside the pins (it wants pandas < 3), a server
that sends a byte now and then keeps its shard open for ever, it tries again without a pause, and a row that failed is
never asked again; so its fetching would have to be watched, and its resuming done again, from outside.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import Any

from recap.core.documents import read_json, write_json
from recap.core.errors import DataError, MissingData
from recap.core.files import atomic_path, exclusive, writing
from recap.core.log import log
from recap.data.datasets.conceptual.shards import (
    GONE,
    OK,
    SHARD,
    Record,
    file_of,
    kept,
    read_records,
    read_shard,
    write_shard,
    write_survivors,
)
from recap.data.datasets.conceptual.tsv import Row, read_tsv
from recap.data.datasets.conceptual.web_pictures import Failure, Web, opened_web, shrunk

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
    expected: Mapping[int, str] | None
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
    published: Path | None = None,
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
        published: the survivors list of another download; only pictures with the hashes listed there are kept.
        only: text file with the number of a row per line, from 0; no others are asked for. A later run with other
            rows adds theirs.
    """
    next(read_tsv(tsv))  # a TSV that is not there or no TSV is refused before anything is made
    with writing(out / LOCK):
        out.mkdir(parents=True, exist_ok=True)
    with exclusive(out / LOCK, wait_seconds=0, what=f"the download into {out}"):
        _same_min_side(out, min_side)
        expected = None
        if published is not None:
            expected = {record.row: record.source_sha256 for record in read_records(published) if record.ok}
        wanted = None if only is None else _numbers(only)
        web = {"workers": workers, "attempts": attempts, "timeout": timeout, "backoff": backoff}
        counts = asyncio.run(_download(tsv, out, min_side, expected, wanted, rounds, web))
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
    expected: Mapping[int, str] | None,
    wanted: Collection[int] | None,
    rounds: int,
    web: Mapping[str, Any],
) -> dict[str, int]:
    """Run all rounds; return what was done."""
    again = None if wanted is None else sorted({number // SHARD for number in wanted})
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        async with opened_web(**web) as opened:
            run = _Run(out, min_side, opened, pool, expected, wanted)
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
    if run.expected is not None:
        same = [record for record in same if not record.ok or record.source_sha256 == run.expected.get(record.row)]
    return {record.row: record for record in same if not record.ok or kept(run.out, record)}


async def _record(run: _Run, row: Row) -> Record:
    """Fetch one picture and store it; the record says what became of it."""
    file = file_of(row.number)
    try:
        if run.expected is not None and row.number not in run.expected:
            raise Failure("other picture", "not in the published list")
        content = await run.web.fetch(row.url)
        if run.expected is not None and sha256(content).hexdigest() != run.expected[row.number]:
            raise Failure("other picture", "its hash is not the published one")
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
