"""Verifies a folder of results: hashes of all files against their lists, and checksums inside files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from recap.core import checksums
from recap.core.errors import DamagedFile, MissingFile, RecapError, first_line
from recap.core.hashing import sha256_file
from recap.plan import provenance

LISTS = (checksums.NAME, provenance.NAME)


def problems(folder: Path) -> Iterator[str]:
    """Yield one sentence for each file that is missing, changed, damaged, or not listed.

    Files are compared with `SHA256SUMS` and `.provenance.json` beside or above them; feature stores, weights and
    Parquet files are also read and compared with the checksums inside them.

    Raises:
        RecapError: the folder is missing or contains no list.
    """
    if not folder.is_dir():
        raise MissingFile(f"{folder}: no such folder; name a folder of results, such as results/demo")
    files = [file for file in folder.absolute().rglob("*") if file.is_file()]
    lists = sorted(file for file in files if file.name in LISTS)
    if not lists:
        raise RecapError(f"{folder}: there is neither {' nor '.join(LISTS)} in it; is this a folder of results?")
    expected: dict[Path, dict[str, str]] = {}
    for path in lists:
        try:
            for file, digest in _listed(path).items():
                expected.setdefault(file, {})[path.name] = digest
        except RecapError as error:
            yield str(error)
    for file in sorted({*files, *expected} - set(lists)):
        try:
            yield from _file_problems(file, expected.get(file, {}))
        except OSError as error:
            yield f"{file}: cannot be read ({error.strerror}); restore it or rerun the workflow"


def _listed(path: Path) -> dict[Path, str]:
    """Return the hashes of one list, by file."""
    if path.name == checksums.NAME:
        return {path.parent / name: digest for name, digest in checksums.recorded(path.parent).items()}
    entries = provenance.read(path.parent)
    root = _root(path.parent, entries)
    return {root / file: entry["sha256"] for file, entry in entries.items()}


def _root(home: Path, entries: dict) -> Path:
    """Return the folder to which the paths of a provenance file are relative: some of them are in ``home``."""
    parts = home.parts
    for count in range(1, len(parts)):
        if any(file.startswith("/".join(parts[count:]) + "/") for file in entries):
            return Path(*parts[:count])
    raise RecapError(f"{home / provenance.NAME}: lists files of other folders; this folder was moved or renamed")


def _file_problems(file: Path, expected: dict[str, str]) -> Iterator[str]:
    """Yield the problems of one file; a changed file is not opened."""
    if not file.exists():
        yield f"{file}: missing, but listed in {' and '.join(expected)}; restore it or rerun the workflow"
        return
    digest = sha256_file(file) if expected else ""
    wrong = [name for name, each in expected.items() if each != digest]
    if wrong:
        yield f"{file}: changed since made (sha256 not in {' and '.join(wrong)}); restore it or rerun the workflow"
        return
    check = CHECKS.get(file.suffix)
    if check is not None:
        try:
            check(file)
        except RecapError as error:
            yield str(error)
    elif not expected:
        yield f"{file}: in no list; delete it if it is a leftover, or run the workflow, which lists its results"


def _check_store(file: Path) -> None:
    from recap.features.store import FeatureStore

    FeatureStore(file).verify()


def _check_parquet(file: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        parquet.read_table(file, page_checksum_verification=True)
    except (pa.ArrowException, OSError) as error:
        raise DamagedFile(f"{file}: damaged ({first_line(error)}); restore it or rerun the workflow") from error


def _check_weights(file: Path) -> None:
    from recap.runs.weights import read_weights

    read_weights(file)


# File suffix -> function that verifies the checksums inside such a file, and raises RecapError.
CHECKS: dict[str, Callable[[Path], None]] = {
    ".h5": _check_store,
    ".parquet": _check_parquet,
    ".safetensors": _check_weights,
}
