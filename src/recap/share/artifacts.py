"""Finished results: verified against the hashes of all files, or removed."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from recap.core import checksums
from recap.core.errors import ChangedFile, ConfigError, MissingFile, RecapError
from recap.core.files import reading
from recap.core.hashing import sha256_file
from recap.plan import records

STORE = Path("mlflow/mlflow.db")
_RESTORE = "restore it or rerun the workflow"
LISTS = (checksums.NAME, records.PROVENANCE)


def problems(folder: Path) -> Iterator[str]:
    """Yield one sentence for each file that is missing, changed, damaged, or not listed.

    Files are compared with `SHA256SUMS` and `.provenance.json` beside or above them; feature
    stores, weights and Parquet files are also read and compared with the checksums inside them.
    """
    if not folder.is_dir():
        raise MissingFile(
            f"{folder}: no such folder; name a folder of results, such as results/demo"
        )
    files = {file for file in folder.absolute().rglob("*") if file.is_file()}
    lists = {file for file in files if file.name in LISTS}
    if not lists:
        raise RecapError(
            f"{folder}: there is neither {' nor '.join(LISTS)} in it; is this a folder of results?"
        )
    expected: defaultdict[Path, dict[str, str]] = defaultdict(dict)
    for path in sorted(lists):
        try:
            for file, digest in _listed_hashes(path).items():
                expected[file][path.name] = digest
        except RecapError as error:
            yield str(error)
    for file in sorted((files | expected.keys()) - lists):
        try:
            with reading(file, RecapError, damaged=_RESTORE):
                _check(file, expected.get(file, {}))
        except RecapError as error:
            yield str(error)


def _listed_hashes(path: Path) -> dict[Path, str]:
    """Return the hashes of one list, by file."""
    home = path.parent
    if path.name == checksums.NAME:
        return {home / name: digest for name, digest in checksums.recorded(home).items()}
    entries = records.read_provenance(home)
    # Paths in it are relative to a folder above it, from which some of them are in its own folder.
    for root in reversed(home.parents):
        if any(file.startswith(f"{home.relative_to(root).as_posix()}/") for file in entries):
            return {root / file: entry["sha256"] for file, entry in entries.items()}
    raise RecapError(f"{path}: lists files of other folders; this folder was moved or renamed")


def _check(file: Path, expected: Mapping[str, str]) -> None:
    """Refuse a file that is not as the lists have it (a changed one is not opened),
    or inside not as it was written."""
    if not file.exists():
        raise MissingFile(f"{file}: missing, but listed in {' and '.join(expected)}; {_RESTORE}")
    digest = sha256_file(file) if expected else ""
    lists = " and ".join(name for name, each in expected.items() if each != digest)
    if lists:
        raise ChangedFile(f"{file}: changed since made (sha256 not in {lists}); {_RESTORE}")
    if file.suffix == ".h5":
        from recap.features.store import FeatureStore

        FeatureStore(file).verify()
    elif file.suffix == ".safetensors":
        from recap.runs.folder import read_weights

        read_weights(file)
    elif file.suffix == ".parquet":
        from pyarrow import parquet

        parquet.read_table(file, page_checksum_verification=True)
    elif not expected:
        raise RecapError(
            f"{file}: in no list; delete it if it is a leftover, or run the workflow, which lists "
            "its own"
        )


def existing_paths(profile: str) -> list[Path]:
    """Return the existing folders and files of a profile."""
    if profile in ("", ".", "..") or profile != Path(profile).name:
        raise ConfigError(f"{profile!r} is not the name of a profile, such as demo")
    folders = [Path(folder, profile) for folder in ("results", "reports", "work", "logs")]
    return [
        path for path in (*folders, STORE.with_name(f"{profile}.published.json")) if path.exists()
    ]


def remove(profile: str) -> None:
    """Remove the files of one profile and its runs in MLflow; other profiles keep theirs."""
    paths = existing_paths(profile)
    if STORE.exists():
        from recap.share.tracking_store import remove_runs

        remove_runs(profile=profile, store=STORE)
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
