"""Annotation files: JSON, or JSON in a zip."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from recap.core.errors import DamagedData, DataError, MissingData
from recap.core.process import cause
from recap.data.files.archives import DAMAGED

_SPACE = re.compile(r"[ \t\n\r]*")
_PARSER = json.JSONDecoder()


def read_json_of(path: Path, pattern: str = "*.json") -> Any:
    """Return the content of a JSON file, or of the one file in a zip whose base name fits the pattern."""
    values = read_jsons(path, pattern)
    _need_one(path, values)
    return next(iter(values.values()))


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
    empty = True
    with _readable(path):
        for element in _items_of(text, key, path):
            empty = False
            yield element
    if empty:
        raise _no_list(path, key)


def _items_of(text: JsonText, key: str, path: Path) -> Iterator[Any]:
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


def _need_one(path: Path, files: Collection[str]) -> None:
    if len(files) != 1:
        names = ", ".join(files) or "none"
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


class JsonText:
    """A text and the place up to which it was read. All methods raise JSONDecodeError where the text is not valid."""

    def __init__(self, text: str) -> None:
        self.text, self.place = text, 0

    def next(self) -> str:
        """Return the next character that is no white space without reading it; '' at the end."""
        space = _SPACE.match(self.text, self.place)
        assert space is not None  # it may match nothing
        self.place = space.end()
        return self.text[self.place : self.place + 1]

    def take(self, *characters: str) -> str:
        """Read the next character, which must be one of some."""
        character = self.next()
        if character not in characters:
            raise json.JSONDecodeError(f"Expecting {' or '.join(characters)}", self.text, self.place)
        self.place += 1
        return character

    def value(self) -> Any:
        """Read a value of any kind."""
        self.next()
        value, self.place = _PARSER.raw_decode(self.text, self.place)
        return value

    def items(self) -> Iterator[Any]:
        """Read a list; each element is parsed when it is asked for."""
        for _ in self._between("[", "]"):
            yield self.value()

    def members(self) -> Iterator[str]:
        """Read an object and yield each key, whose value must be read before the next key is asked for."""
        for _ in self._between("{", "}"):
            if self.next() != '"':
                raise json.JSONDecodeError("Expecting property name", self.text, self.place)
            key: str = self.value()
            self.take(":")
            yield key

    def end(self) -> None:
        """Refuse anything but white space."""
        if self.next():
            raise json.JSONDecodeError("Extra data", self.text, self.place)

    def _between(self, opening: str, closing: str) -> Iterator[None]:
        self.take(opening)
        if self.next() == closing:
            self.take(closing)
            return
        yield
        while self.take(",", closing) == ",":
            yield
