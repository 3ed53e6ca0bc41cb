"""The list of all outside files: where each is, what it must hash to, whose it is
(``params/data_versions.csv``)."""

from __future__ import annotations

import csv
import fnmatch
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, PositiveInt

from recap.core.errors import ConfigError, UnknownName, nearest
from recap.core.files import reading
from recap.settings.base import Strict, all_or_none, only_with, reject_if
from recap.settings.params import validate

LIST = Path("params/data_versions.csv")
_DIGITS = {"md5": 32, "sha1": 40, "sha256": 64}
_SAME = ("version", "algorithm", "hash", "bytes")  # of all lines of one file


class OutsideFile(Strict):
    """One outside file: its line of the list, and those of its mirrors,
    which are other addresses of the same bytes.

    Roles: an own file has no address, ``note`` says the steps to get it; an unpacked one is a
    folder of members of a listed archive; one of the hub is hub/OWNER/NAME of the HuggingFace hub,
    which jobs load by themselves: its version is the commit, `main` where none is pinned.
    """

    model_config = ConfigDict(frozen=True)

    # dataset/file, the place below the profile's `inputs`: no part begins with a dot
    name: str = Field(pattern=r"^[\w-][^/\\]*(/[\w-][^/\\]*)+$")
    version: str = Field(min_length=1)
    role: Literal["primary", "own", "unpacked", "hub"]
    urls: tuple[Annotated[str, Field(pattern=r"^https?://\S+$")], ...] = ()  # in the order of trial
    algorithm: Literal["md5", "sha1", "sha256"] | None = None
    # as published; None: recorded at the first fetch
    hash: str | None = Field(None, pattern=r"^[0-9a-f]+$")
    bytes: PositiveInt | None = None
    licence: str = ""
    checked_on: date | None = None  # when `.ci/check_addresses.py` last met the file
    note: str = ""
    archive: str | None = None  # unpacked: name of the archive in this list
    # unpacked: glob of the archive's members; its leading folders without wildcards are left out,
    # so that `trainval/*` of an archive becomes NAME/*
    members: str | None = None

    _address = only_with("urls", when=("role", "primary"))
    _archive = only_with("archive", when=("role", "unpacked"))
    _members = only_with("members", when=("role", "unpacked"))
    _hashed = all_or_none("algorithm", "hash")

    _noted = reject_if(
        lambda file: file.role == "own" and not file.note,
        "a file of the role 'own' needs a note that says where to get it",
    )
    _whole = reject_if(
        lambda file: file.hash and len(file.hash) != _DIGITS[file.algorithm],
        "{hash} does not have the number of hex digits of a {algorithm}",
    )


def read_versions(path: Path = LIST) -> dict[str, OutsideFile]:
    """Return the outside files of a list by name."""
    lines: dict[str, dict[int, dict[str, Any]]] = {}  # of each file by their numbers
    with (
        reading(path, ConfigError, missing="say where it is with --list", damaged="restore it"),
        Path(path).open(newline="", encoding="utf-8") as file,
    ):
        reader = csv.DictReader(file, restkey="(too many cells)")
        for cells in reader:
            values = {key: value for key, value in cells.items() if value}
            lines.setdefault(values.get("name", ""), {})[reader.line_num] = values
    files = {name: _joined(name, of_file, path) for name, of_file in lines.items()}
    for name, each in files.items():
        if each.archive is not None and (each.archive not in files or files[each.archive].archive):
            raise ConfigError(
                f"{path}: the archive {each.archive!r} of {name!r} is no file of the list; add it"
            )
    return files


def _joined(name: str, lines: dict[int, dict[str, Any]], path: Path) -> OutsideFile:
    """Return the lines of one file as one.

    Exactly one is no mirror, and none contradicts another.
    """
    order = sorted(lines, key=lambda number: lines[number].get("role") == "mirror")
    first = dict(lines[order[0]])
    for number in order[1:]:
        differing = [key for key in _SAME if lines[number].get(key) != first.get(key)]
        if differing or lines[number].get("role") != "mirror":
            raise ConfigError(
                f"{path} line {number}: {name!r} has a line that is no mirror already, or differs "
                f"from it in {', '.join(differing)}; a mirror holds the same bytes"
            )
    first.pop("url", None)
    urls = [values["url"] for values in map(lines.get, order) if values and "url" in values]
    return validate(OutsideFile, {**first, "urls": urls}, f"{path} line {order[0]}")


def list_of(params: Path) -> Path:
    """Return the list of outside files in a folder of parameter files, which may have none."""
    return params / LIST.name


def entry_of(name: str, files: Mapping[str, OutsideFile]) -> OutsideFile | None:
    """Return the entry of a file in a list, or that of its folder; None if neither is listed."""
    places = map(str, (PurePosixPath(name), *PurePosixPath(name).parents))
    return next((files[place] for place in places if place in files), None)


def choose(
    files: dict[str, OutsideFile], names: Sequence[str], path: Path = LIST
) -> list[OutsideFile]:
    """Return the files of the given names, each once.

    A name may be a pattern such as ``coco/*2014.zip``.
    """
    chosen: dict[str, OutsideFile] = {}
    for name in names:
        matches = [each for each in files if each == name or fnmatch.fnmatchcase(each, name)]
        if not matches:
            raise UnknownName(f"{path}: there is no {name!r}; {nearest(name, files)}")
        chosen |= {each: files[each] for each in matches}
    return list(chosen.values())
