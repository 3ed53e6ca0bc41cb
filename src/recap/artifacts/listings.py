"""What `dvc.lock` names, and which files are in its folders.

DVC asks the remote for the listing of a folder, does not compare it with the checksum in `dvc.lock`, and follows every
path and every md5 in it, also out of the folder and out of its cache. So the listings travel in git, beside `dvc.lock`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from recap.core.documents import read_json, write_json
from recap.core.errors import DamagedData, DataError
from recap.settings.params import read_mapping

LOCK = Path("dvc.lock")
LISTINGS = Path("dvc.listings.json")
DIR = ".dir"  # how DVC's name of a listing ends
_MD5 = re.compile(r"[0-9a-f]{32}")
_DAMAGED = (KeyError, TypeError, AttributeError)  # values of other types than DVC writes


@dataclass(frozen=True)
class Output:
    """A file or folder that `dvc.lock` names.

    Attributes:
        path: relative to the project.
        name: of the file or of the folder's listing in DVC's cache: its md5, and `.dir` for a folder.
    """

    path: str
    name: str

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder."""
        return self.name.endswith(DIR)


def outputs(profile: str) -> list[Output]:
    """Return the results of a profile that `dvc.lock` names.

    Raises:
        DataError: there is none, or the file is damaged.
    """
    chosen = [out for out in _every() if _is_of(out, profile)]
    if not chosen:
        raise DataError(f"{LOCK}: names no results of {profile!r}; `recap artifacts push {profile}` adds them")
    return chosen


def has_outputs(profile: str) -> bool:
    """Return whether `dvc.lock` names results of a profile; errors as of `outputs`."""
    return any(_is_of(out, profile) for out in _every())


def _is_of(out: Output, profile: str) -> bool:
    return f"{out.path}/".startswith((f"results/{profile}/", f"reports/{profile}/"))


def _every() -> list[Output]:
    """Return the results of all profiles that `dvc.lock` names."""
    try:
        outs = [out for stage in read_mapping(LOCK)["stages"].values() for out in stage.get("outs", [])]
        found = [Output(out["path"], out["md5"]) for out in outs]
        wrong = [out.path for out in found if _leads_out(out.path, out.name.removesuffix(DIR))]
    except _DAMAGED as error:
        raise DamagedData(f"{LOCK}: damaged, or not written by DVC 3; restore it from git") from error
    if wrong:
        raise DataError(f"{LOCK}: {wrong[0]!r} has no md5 or is no path in the project; restore the file from git")
    return found


def write_listings(listings: dict[str, bytes]) -> None:
    """Write the listings of folders as DVC has them, by path, one line per file; those of other profiles stay."""
    known = read_json(LISTINGS) if LISTINGS.exists() else {}
    write_json(LISTINGS, {**known, **{path: json.loads(text) for path, text in listings.items()}})


def read_listings(found: Iterable[Output]) -> dict[Output, bytes]:
    """Return the listing of each folder as DVC has it.

    Raises:
        DataError: one is missing, or is not the one that `dvc.lock` names.
    """
    known = read_json(LISTINGS) if LISTINGS.exists() else {}
    listings = {}
    for out in found:
        text = json.dumps(known.get(out.path) if isinstance(known, dict) else None, sort_keys=True).encode()
        if hashlib.md5(text, usedforsecurity=False).hexdigest() + DIR != out.name:
            raise DataError(
                f"{LISTINGS}: the files of {out.path} are missing or not those that {LOCK} names; run `recap artifacts "
                "push` where the results are, and commit both files"
            )
        listings[out] = text
    return listings


def listed(out: Output, text: bytes) -> dict[str, str]:
    """Return the md5 of each file in a folder, by its path below the folder.

    Raises:
        DataError: a file has no md5, is there twice, or would be written elsewhere than in the folder, also by a
            symbolic link.
    """
    try:
        entries = [(entry["relpath"], entry["md5"]) for entry in json.loads(text)]
    except _DAMAGED as error:
        raise DataError(f"{LISTINGS}: {out.path}: is no listing as DVC writes it; restore it from git") from error
    files: dict[str, str] = {}
    folders: set[str] = set()
    for path, md5 in entries:
        if not isinstance(path, str) or not isinstance(md5, str) or path in files or _leads_out(path, md5):
            raise _wrong_entry(out, path)
        files[path] = md5
        folders |= {str(folder) for folder in Path(path).parents}
    if both := folders & set(files):
        raise _wrong_entry(out, min(both))
    for folder in sorted(Path(out.path) / folder for folder in folders):
        if folder.is_symlink():
            raise DataError(
                f"{folder}: is a symbolic link, through which nothing is written; remove it, and pull again"
            )
    return files


def _wrong_entry(out: Output, path: object) -> DataError:
    return DataError(
        f"{LISTINGS}: {out.path}: {path!r} is listed twice, has no md5 or leads elsewhere; restore the file from git"
    )


def _leads_out(path: str, md5: str) -> bool:
    """Return whether a path is absolute or may leave its folder on any system, or an md5 the cache."""
    return bool(
        {"", ".", ".."} & set(path.split("/")) or re.search(r"[\\\0]|^[A-Za-z]:", path) or not _MD5.fullmatch(md5)
    )
