"""Annotation files: JSON, or JSON in a zip."""

from __future__ import annotations

import json
import zipfile
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from recap.core.errors import DamagedData, DataError, MissingData
from recap.data.files.members import DAMAGED

# COCO's largest annotation file has 0.5 GiB.
MAX_BYTES = 4 * 2**30


def read_json_of(path: Path, pattern: str = "*.json") -> Any:
    """Return the content of a JSON file, or of the one file in a zip whose base name fits the pattern.

    Raises:
        DataError: the file is missing or no JSON, or the zip holds none or several.
    """
    found = read_jsons(path, pattern)
    if len(found) != 1:
        names = ", ".join(found) or "none"
        raise DataError(f"{path}: expected one JSON in the zip, found {names}; name one JSON instead")
    return next(iter(found.values()))


def read_jsons(path: Path, pattern: str) -> dict[str, Any]:
    """Return the contents of all JSON files in a zip whose base name fits a pattern, by name; a lone JSON as is.

    Raises:
        DataError: the file is missing, damaged or no JSON.
    """
    if not path.is_file():
        raise MissingData(f"{path}: no such annotation file; correct the key 'annotations' or the inputs folder")
    try:
        if not zipfile.is_zipfile(path):
            return {path.name: json.loads(path.read_bytes())}
        with zipfile.ZipFile(path) as opened:
            return {name: json.loads(_content(opened, name, path)) for name in _fitting(opened, pattern)}
    except DAMAGED as error:
        raise DamagedData(f"{path}: not valid JSON, or a damaged zip ({error}); fetch the file again") from error


def _fitting(opened: zipfile.ZipFile, pattern: str) -> list[str]:
    names = [name for name in opened.namelist() if not name.startswith("__MACOSX/")]
    return [name for name in names if fnmatchcase(name.rsplit("/", 1)[-1], pattern)]


def _content(opened: zipfile.ZipFile, name: str, path: Path) -> bytes:
    if opened.getinfo(name).file_size > MAX_BYTES:
        raise DataError(f"{path}: {name} unpacks to more than {MAX_BYTES // 2**30} GiB; this is no annotation file")
    return opened.read(name)
