"""Annotation files: JSON, or JSON in a zip."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from recap.core.errors import DamagedData, DataError, MissingData
from recap.core.process import cause
from recap.data.files.json_text import JsonText
from recap.data.files.members import DAMAGED


def read_json_of(path: Path, pattern: str = "*.json") -> Any:
    """Return the content of a JSON file, or of the one file in a zip whose base name fits the pattern."""
    found = read_jsons(path, pattern)
    _need_one(path, found)
    return next(iter(found.values()))


def read_jsons(path: Path, pattern: str) -> dict[str, Any]:
    """Return the contents of all JSON files in a zip whose base name fits a pattern, by name; a lone JSON as is."""
    with _readable(path):
        return {name: json.loads(content) for name, content in _contents(path, pattern)}


def each_of(path: Path, pattern: str, key: str) -> Iterator[Any]:
    """Yield the elements of the list that the object in a JSON file, or in the one of a zip, has under a key.

    Memory holds the text and one element; COCO's captions, read whole, take six times their text.
    """
    with _readable(path):
        texts = {
            name: JsonText(content.decode(json.detect_encoding(content), "surrogatepass"))
            for name, content in _contents(path, pattern)
        }
    _need_one(path, texts)
    (text,) = texts.values()
    found = 0
    with _readable(path):
        for element in _elements(text, key, path):
            found += 1
            yield element
    if not found:
        raise _no_list(path, key)


def _elements(text: JsonText, key: str, path: Path) -> Iterator[Any]:
    if text.next() != "{":
        text.value()
        raise DataError(f"{path}: the file must be a JSON object; is this the JSON that the settings name?")
    lists = 0
    for name in text.members():
        if name != key:
            text.value()
            continue
        lists += 1
        if lists > 1 or text.next() != "[":
            raise _no_list(path, key)
        yield from text.items()
    text.end()


def _no_list(path: Path, key: str) -> DataError:
    return DataError(f"{path}: no list of {key} under the key {key!r}, or several; is this a Karpathy JSON?")


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn whatever is wrong with a file into one sentence."""
    if not path.is_file():
        raise MissingData(f"{path}: no such annotation file; correct the key 'annotations' or the inputs folder")
    try:
        yield
    except DAMAGED as error:
        raise DamagedData(f"{path}: not valid JSON, or a damaged zip ({cause(error)}); fetch the file again") from error


def _need_one(path: Path, found: Collection[str]) -> None:
    if len(found) != 1:
        names = ", ".join(found) or "none"
        raise DataError(f"{path}: expected one JSON in the zip, found {names}; name one JSON instead")


def _contents(path: Path, pattern: str) -> Iterator[tuple[str, bytes]]:
    """Yield name and bytes of a lone file, or of each file in a zip whose base name fits a pattern."""
    if not zipfile.is_zipfile(path):
        yield path.name, path.read_bytes()
        return
    with zipfile.ZipFile(path) as opened:
        for name in _fitting(opened, pattern):
            yield name, opened.read(name)


def _fitting(opened: zipfile.ZipFile, pattern: str) -> list[str]:
    names = [name for name in opened.namelist() if not name.startswith("__MACOSX/")]
    return [name for name in names if fnmatchcase(name.rsplit("/", 1)[-1], pattern)]
