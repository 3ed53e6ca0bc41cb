"""What an outside file is checked against: size, published hash, hash of the first fetch, or its form alone."""

from __future__ import annotations

import gzip
import hashlib
import zipfile
from pathlib import Path

from recap.core.documents import read_json
from recap.core.errors import DataError
from recap.data.files.archives import check_names
from recap.data.files.members import DAMAGED, damage
from recap.settings.versions import OutsideFile


def record_of(target: Path) -> Path:
    """Return where the hash of a fetched file is recorded."""
    return target.with_name(target.name + ".fetched.json")


def verify(file: OutsideFile, path: Path, target: Path) -> tuple[str, str]:
    """Check a file's bytes and return their sha256, and in words against what they were checked.

    Where no hash is published, the sha256 of the first fetch of ``target`` takes its place; where there is none
    either, the form must do: all entries of a zip or jar, a whole gzip, safe names in both, no web page.
    """
    again = "remove it and fetch it again"
    size = path.stat().st_size
    if file.bytes is not None and size != file.bytes:
        raise DataError(f"{path}: has {size} bytes where the list of files says {file.bytes}; {again}")
    sha256 = _digest(path, "sha256")
    if file.algorithm is not None and file.hash is not None:
        found = sha256 if file.algorithm == "sha256" else _digest(path, file.algorithm)
        if found != file.hash:
            raise DataError(f"{path}: its {file.algorithm} is {found}, not {file.hash} as published; {again}")
        return sha256, f"published {file.algorithm}"
    recorded = record_of(target)
    if recorded.is_file():
        first = read_json(recorded, dict[str, str | int]).get("sha256")
        if first != sha256:
            raise DataError(
                f"{path}: its sha256 is {sha256}, but {first} was recorded at the first fetch; fetch it again, or "
                f"remove {recorded} if the publisher has changed the file"
            )
        return sha256, "sha256 of the first fetch"
    _check_form(path, file.name)
    return sha256, "form alone: no hash is published; its sha256 is recorded now"


def _digest(path: Path, algorithm: str) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False)).hexdigest()


def _check_form(path: Path, name: str) -> None:
    """Refuse what cannot be the file before its hash is recorded, which would be defended from then on."""
    with path.open("rb") as file:
        head = file.read(512).lstrip().lower()
    if not head:
        raise DataError(f"{path}: is empty; remove it and fetch it again")
    if head.startswith((b"<!doctype html", b"<html")) and not name.endswith(".html"):
        raise DataError(f"{path}: is a web page, not {name}; remove it and fetch it again")
    try:
        if name.endswith((".zip", ".jar")):
            with zipfile.ZipFile(path) as archive:
                if (wrong := archive.testzip()) is not None:
                    raise zipfile.BadZipFile(f"the check sum of {wrong!r} is wrong")
        if name.endswith((".gz", ".tgz")):
            with gzip.open(path) as stream:
                while stream.read(2**20):
                    pass
        if name.endswith((".zip", ".tgz", ".tar.gz")):
            check_names(path)
    except DAMAGED as error:
        raise damage(path, error) from error
