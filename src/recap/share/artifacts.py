"""Finished results: verified against the hashes of all files, or removed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from recap.core import checksums
from recap.core.errors import ChangedFile, ConfigError, MissingFile, RecapError
from recap.core.files import reading
from recap.core.hashing import sha256_file

STORE = Path("mlflow/mlflow.db")
_RESTORE = "restore it or rerun the workflow"


def problems(folder: Path) -> Iterator[str]:
    """Yield one sentence for each file that is missing, changed, damaged, or not listed.

    Files are compared with the `SHA256SUMS` of their folder; feature stores, weights and Parquet
    files are read and compared with the checksums inside them. The folder of a profile has no list:
    the workflow holds its lock.
    """
    files = {file for file in folder.absolute().rglob("*") if file.is_file()}
    lists = {file for file in files if file.name == checksums.NAME}
    if not lists:
        raise MissingFile(
            f"{folder}: no {checksums.NAME} in it; name a folder of results, such as results/demo"
        )
    expected: dict[Path, str] = {}
    for path in sorted(lists):
        try:
            listed = checksums.recorded(path.parent)
        except RecapError as error:
            yield str(error)
            continue
        expected |= {path.with_name(name): digest for name, digest in listed.items()}
    for file in sorted((files | expected.keys()) - lists):
        try:
            with reading(file, RecapError, damaged=_RESTORE):
                _check(file, expected.get(file))
        except RecapError as error:
            yield str(error)


def _check(file: Path, expected: str | None) -> None:
    """Refuse a file that is not as its list has it (a changed one is not opened), or inside not as
    it was written."""
    if not file.exists():
        raise MissingFile(f"{file}: missing, but listed in {checksums.NAME}; {_RESTORE}")
    if expected and sha256_file(file) != expected:
        raise ChangedFile(
            f"{file}: changed since made (sha256 not in {checksums.NAME}); {_RESTORE}"
        )
    if file.suffix == ".h5":
        from recap.features.store import FeatureStore

        FeatureStore(file).verify()
    elif file.suffix == ".safetensors":
        from recap.runs.folder import read_weights

        read_weights(file)
    elif file.suffix == ".parquet":
        from pyarrow import parquet

        parquet.read_table(file, page_checksum_verification=True)
    elif not expected and file.with_name(checksums.NAME).exists():
        raise RecapError(
            f"{file}: in no list; delete it if it is a leftover, or run the workflow, which lists "
            "its own"
        )


def existing_paths(profile: str) -> list[Path]:
    """Return the existing folders and files of a profile."""
    if profile in ("", ".", "..") or profile != Path(profile).name:
        raise ConfigError(f"{profile!r} is not the name of a profile, such as demo")
    paths = [Path(folder, profile) for folder in ("results", "reports", "work", "logs")]
    paths.append(STORE.with_name(f"{profile}.published.json"))
    return list(filter(Path.exists, paths))


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
