"""What became of each row of a Conceptual Captions TSV: records shard by shard, and the survivors list."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recap.core.documents import write_json
from recap.core.errors import DamagedData, DataError, MissingData
from recap.core.files import atomic_path
from recap.data.datasets.conceptual.tsv import Row

if TYPE_CHECKING:
    import pyarrow as pa

OK = "ok"
NOT_ASKED = "not asked"
# Failures that asking again will not change; all others are asked again by the next run.
GONE = ("http 404", "http 410", "bad url", "other picture")
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
    bytes, statuses, and the ten hosts with most failures.

    Args:
        out: the folder of the download.
        shards: number and rows of every shard of the TSV.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    statuses: Counter[str] = Counter()
    hosts: Counter[str] = Counter()
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
            hosts.update(_host(record.url) for record in records if record.status not in (OK, NOT_ASKED))
    rows_of_all = statuses.total()
    asked = rows_of_all - statuses[NOT_ASKED]
    counts: dict[str, Any] = {"rows": rows_of_all, "ok": statuses[OK], "bytes": size, "statuses": dict(statuses)}
    counts["success_rate"] = round(statuses[OK] / asked, 6) if asked else 0.0
    counts["worst_hosts"] = dict(hosts.most_common(10))
    write_json(out / "survivors.json", counts)
    return counts


def _of(row: Row, known: Record | None) -> Record:
    return known if known is not None and known.url == row.url else Record(row.number, row.url, NOT_ASKED)


def _host(url: str) -> str:
    return url.split("/", 3)[2] if url.count("/") > 1 else url
