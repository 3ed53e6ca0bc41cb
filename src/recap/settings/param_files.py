"""Finds the files of ``params/``: shared ones in ``<section>/``, those of a paper in ``<paper>/<section>/``.

Every folder of ``params/`` that is no section is one of a paper, or of a group: there is no list of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from recap.core.documents import read_mapping
from recap.settings import SECTIONS

OF_A_PAPER = ("tables", "figures", "studies")  # their names begin with the paper: params/mine/tables/t3.yaml is mine/t3
TABLES = "tables"
SCALES = "scales"  # all files of one name are one scale
_NO_PROFILES = ("titles.yaml", "rehearsal.yaml")


def papers(params: Path) -> list[str]:
    """Return the names of the papers' folders."""
    folders = params.iterdir() if params.is_dir() else ()
    return sorted(path.name for path in folders if path.is_dir() and path.name not in SECTIONS)


def names(params: Path, section: str) -> list[str]:
    """Return the names of all files of a section, sorted; of a table with parts, those of its parts in their order."""
    found = {file.stem for file in (params / section).glob("*.yaml")}
    for paper in papers(params):
        stems = (file.stem for file in (params / paper / section).glob("*.yaml"))
        found |= {f"{paper}/{stem}" if section in OF_A_PAPER else stem for stem in stems}
    return tables_named(params, sorted(found)) if section == TABLES else sorted(found)


def tables_named(params: Path, names: Iterable[str]) -> list[str]:
    """Return the tables that names mean: that of a file with parts means all of them (``mine/t1_f001`` ...)."""
    return [table for name in names for table in _parts(params, name) or [name]]


def file_and_part(params: Path, name: str) -> tuple[str, str | None]:
    """Return the name of the file that has a table, and the part of it that the table is (``t1_f001`` of ``t1``)."""
    if not _files(params, TABLES, name):
        for end in (place for place, char in enumerate(name) if char == "_"):
            if name in _parts(params, name[:end]):
                return name[:end], name[end + 1 :]
    return name, None


def _parts(params: Path, table: str) -> list[str]:
    """Return the names of the parts that the file of a table has."""
    found = [read_mapping(path).get("parts") for path in _files(params, TABLES, table)]
    return [f"{table}_{part}" for parts in found if isinstance(parts, dict) for part in parts]


def files(params: Path, section: str, name: str) -> list[Path]:
    """Return the files with a name, the shared one first; a part of a table has the file of that table."""
    return _files(params, section, file_and_part(params, name)[0] if section == TABLES else name)


def _files(params: Path, section: str, name: str) -> list[Path]:
    """Return the files with a name; `../a`, `/a` and other spellings of a name have none."""
    if Path(name).is_absolute() or ".." in Path(name).parts or Path(name).as_posix() != name:
        return []
    paper, _, stem = name.rpartition("/")
    if section in OF_A_PAPER:
        return list(filter(_is_file, [params / paper / section / f"{stem}.yaml"]))
    folders = [params, *(params / each for each in papers(params))]
    return [path for folder in folders if _is_file(path := folder / section / f"{name}.yaml")]


def label(params: Path, path: Path) -> str:
    """Return what messages call a file of ``params/``."""
    return f"{params.name}/{path.relative_to(params).as_posix()}"


def profiles(params: Path) -> list[Path]:
    """Return the files of all profiles."""
    shared = (path for path in params.glob("*.yaml") if path.name not in _NO_PROFILES)
    return [*sorted(shared), *sorted(params.glob("*/profile.yaml"))]


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # no file can have such a name
        return False
