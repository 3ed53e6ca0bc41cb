"""Which of the missing outside files are fetched, and the sentence that refuses a workflow without the others."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from recap.core.errors import ConfigError
from recap.data.files.versions import LIST, OutsideFile, entry_of, read_versions


def list_of(params: Path) -> Path:
    """Return the list of outside files in a folder of parameter files."""
    return params / LIST.name


def files_to_fetch(missing: Mapping[str, str], params: Path, *, inputs: str, fetch: bool) -> dict[str, str]:
    """Return the missing files that may be fetched, with their names in the list of outside files.

    Args:
        missing: path -> the parameter file that names it.
        params: the folder of the parameter files, which may have no list of outside files.
        inputs: the folder that the names in the list are relative to.
        fetch: whether the profile allows it.

    Raises:
        ConfigError: the list is not valid, or another file is missing; the sentence says what to do.
    """
    versions = list_of(params)
    listed = read_versions(versions) if versions.exists() else {}
    fetched = {}
    for path, named_by in missing.items():
        place = Path(path)
        name = place.relative_to(inputs) if place.is_relative_to(inputs) else place
        entry = entry_of(name.as_posix(), listed)
        if not (fetch and entry is not None and entry.urls):
            raise ConfigError(_refusal(path, named_by, entry, inputs))
        fetched[path] = entry.name
    return fetched


def _refusal(path: str, named_by: str, entry: OutsideFile | None, inputs: str) -> str:
    origin = f" ({entry.note})" if entry is not None and not entry.urls else ""
    known = f", or have it fetched with --config fetch=true inputs={inputs}" if entry is not None and entry.urls else ""
    return (
        f"{path}: no such file or folder; {named_by} names it: put it there{origin}, or say where your files are with "
        f"--config inputs=FOLDER (recap train: --inputs FOLDER){known}"
    )
