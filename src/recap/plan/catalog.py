"""The parameter files of a section as a person looks for them: name, papers that use it, size, title."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from recap.core.errors import MissingSettings
from recap.settings import RowSettings, TableFile
from recap.settings.params import base_files, files, load_named, names

_LONGEST = 110  # characters of a title
_OF_ROWS = {"datasets": "dataset", "subsets": "subset", "features": "features", "models": "model", "recipes": "recipe"}


class Listed(NamedTuple):
    """One file; what does not apply is empty."""

    name: str
    papers: str
    size: str
    title: str


def section_names(params: Path, section: str) -> list[str]:
    """Return the names of the files of a section."""
    if not params.is_dir():
        raise MissingSettings(f"{params}: there is no such folder; name that of the parameter files with --params")
    return names(params, section)


def files_of(params: Path, section: str) -> list[Listed]:
    """Return the files of a section."""
    found = section_names(params, section)
    papers = _papers(params, _OF_ROWS[section]) if section in _OF_ROWS else {}
    return [
        Listed(
            name, ", ".join(sorted(papers.get(name, ()))), _size(params, section, name), _title(params, section, name)
        )
        for name in found
    ]


def _title(params: Path, section: str, name: str) -> str:
    """Return the `title` of a file, or else the first sentence of the comment on its top."""
    said = base_files(params, section, name)[-1][1].get("title")
    comment = re.match(r"(?:#.*\n)+", files(params, section, name)[0].read_text(encoding="utf-8"))
    lines = comment[0].splitlines() if comment else []
    text = str(said or " ".join(line.removeprefix("#").strip() for line in lines))
    sentence = re.split(r"(?<=[^.][.;]) (?=[A-Z])", text)[0].rstrip(".;")
    return sentence if len(sentence) <= _LONGEST else f"{sentence[:_LONGEST].rsplit(' ', 1)[0]} ..."


def _size(params: Path, section: str, name: str) -> str:
    if section == "models":
        millions = load_named(params, section, name).expected_parameters
        return f"{millions:g} M" if millions else ""
    return f"{len(load_named(params, section, name).rows)}" if section == "tables" else ""


def _papers(params: Path, key: str) -> dict[str, set[str]]:
    """Return by name the folders of the tables whose rows name it at the scale of their paper."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for table in names(params, "tables"):
        file: TableFile = load_named(params, "tables", table)
        for row in file.rows:
            for name in _named(row, key) or _named(file.defaults, key):
                found[name].add(table.rpartition("/")[0])
    return found


def _named(settings: RowSettings, key: str) -> list[str]:
    value = getattr(settings, key)
    if isinstance(value, dict):
        value = value.get("base")
    return value if isinstance(value, list) else [value] if value else []
