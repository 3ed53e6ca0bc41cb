"""The list of all outside files: where each is, what it must hash to, whose it is (``params/data_versions.csv``)."""

from __future__ import annotations

import csv
import fnmatch
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path, PurePosixPath
from typing import Any, Literal, Self

from pydantic import Field, PositiveInt, field_validator, model_validator

from recap.core.errors import ConfigError, MissingSettings, UnknownName, nearest
from recap.settings.base import Strict, all_or_none, together
from recap.settings.params import validate

LIST = Path("params/data_versions.csv")
HASH_DIGITS = {"md5": 32, "sha1": 40, "sha256": 64}


class VersionRow(Strict):
    """One line of the list: one address of a file, a file that the user must bring, or what an archive holds."""

    name: str = Field(description="dataset/file, the place below the profile's `inputs`")
    version: str = Field(min_length=1)
    role: Literal["primary", "mirror", "own", "unpacked", "hub"] = Field(
        description="mirror: another address of the same bytes, tried after those before it; own: no address, the note "
        "says the steps to get it; unpacked: a folder of members of a listed archive; hub: hub/OWNER/NAME of the "
        "HuggingFace hub, which jobs load by themselves; the version is the commit, `main` where none is pinned"
    )
    url: str | None = Field(pattern=r"^https?://\S+$")
    algorithm: Literal["md5", "sha1", "sha256"] | None
    hash: str | None = Field(pattern=r"^[0-9a-f]+$", description="as published; empty: recorded at the first fetch")
    bytes: PositiveInt | None
    licence: str
    checked_on: date | None = Field(description="when `.ci/check_addresses.py` last met the file; empty: not asked")
    note: str
    archive: str | None = Field(None, description="unpacked: name of the archive in this list")
    members: str | None = Field(
        None,
        description="unpacked: glob of the archive's members; its leading folders without wildcards are left out, so "
        "that `trainval/*` of an archive becomes NAME/*",
    )

    _address = together("url", when=("role", "primary", "mirror"))
    _archive = together("archive", when=("role", "unpacked"))
    _members = together("members", when=("role", "unpacked"))
    _hashed = all_or_none("algorithm", "hash")

    @field_validator("url", "algorithm", "hash", "bytes", "checked_on", "archive", "members", mode="before")
    @classmethod
    def _empty_is_none(cls, value: Any) -> Any:
        return value or None

    @field_validator("name")
    @classmethod
    def _safe(cls, name: str) -> str:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or len(path.parts) < 2 or "\\" in name or str(path) != name:
            raise ValueError(f"{name!r} is no name of the form dataset/file")
        return name

    @model_validator(mode="after")
    def _note_and_hash(self) -> Self:
        if self.role == "own" and not self.note:
            raise ValueError("a file of the role 'own' needs a note that says where to get it")
        if self.algorithm and self.hash and len(self.hash) != HASH_DIGITS[self.algorithm]:
            raise ValueError(f"a {self.algorithm} has {HASH_DIGITS[self.algorithm]} hex digits, got {len(self.hash)}")
        return self


@dataclass(frozen=True)
class OutsideFile:
    """One outside file with all its addresses in the order of trial; hash and bytes are None where unpublished.

    A file of the user's own has no address: ``note`` says the steps to get it. What is unpacked has no address either,
    but the name of its archive in the same list.
    """

    name: str
    version: str
    urls: tuple[str, ...]
    algorithm: str | None
    hash: str | None
    bytes: int | None
    licence: str
    checked_on: date | None
    note: str
    archive: str | None = None
    members: str | None = None


def read_versions(path: Path = LIST) -> dict[str, OutsideFile]:
    """Return the outside files of a list by name."""
    rows: dict[str, list[VersionRow]] = {}
    try:
        with Path(path).open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file, restkey="(too many cells)", restval=None)
            for values in reader:
                row: VersionRow = validate(VersionRow, dict(values), f"{path} line {reader.line_num}")
                rows.setdefault(row.name, []).append(row)
    except FileNotFoundError as error:
        raise MissingSettings(f"{path}: no such list of outside files; say where it is with --list") from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); say where the list is with --list") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"{path}: not readable as CSV ({error}); restore it") from error
    files = {name: _joined(name, same, path) for name, same in rows.items()}
    for name, listed in files.items():
        if listed.archive is not None and (listed.archive not in files or files[listed.archive].archive):
            raise ConfigError(f"{path}: the archive {listed.archive!r} of {name!r} is no file of the list; add it")
    return files


def _joined(name: str, rows: list[VersionRow], path: Path) -> OutsideFile:
    """Return the lines of one file as one; exactly one is no mirror, and none contradicts another."""
    if sum(row.role != "mirror" for row in rows) != 1:
        raise ConfigError(f"{path}: {name!r} needs exactly one line with the role 'primary'; correct the roles")
    rows = sorted(rows, key=lambda row: row.role == "mirror")
    for key in ("version", "algorithm", "hash", "bytes"):
        if len({getattr(row, key) for row in rows}) > 1:
            raise ConfigError(f"{path}: the lines of {name!r} differ in {key!r}; a mirror holds the same bytes")
    urls = tuple(row.url for row in rows if row.url)
    return OutsideFile(urls=urls, **rows[0].model_dump(exclude={"role", "url"}))


def list_of(params: Path) -> Path:
    """Return the list of outside files in a folder of parameter files, which may have none."""
    return params / LIST.name


def entry_of(name: str, files: Mapping[str, OutsideFile]) -> OutsideFile | None:
    """Return the entry of a file in a list, or that of its folder; None if neither is listed."""
    places = map(str, (PurePosixPath(name), *PurePosixPath(name).parents))
    return next((files[place] for place in places if place in files), None)


def steps(note: str) -> list[str]:
    """Return the numbered steps of a note, and what stands before them, each as a text."""
    return [part.strip().rstrip(";:").strip() for part in re.split(r"(?=\b\d\. )", note) if part.strip()]


def choose(files: dict[str, OutsideFile], names: Sequence[str], path: Path = LIST) -> list[OutsideFile]:
    """Return the files of the given names, each once; a name may be a pattern such as ``coco/*2014.zip``."""
    chosen: dict[str, OutsideFile] = {}
    for name in names:
        matches = {each: file for each, file in files.items() if each == name or fnmatch.fnmatchcase(each, name)}
        if not matches:
            raise UnknownName(f"{path}: there is no {name!r}; {nearest(name, files)}")
        chosen |= matches
    return list(chosen.values())
