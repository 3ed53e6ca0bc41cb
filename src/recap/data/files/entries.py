"""Entries of foreign files, each checked by a pydantic model: JSON, JSON in a zip, and CSV."""

from __future__ import annotations

import csv
import json
import re
import zipfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from recap.core.documents import first_problem
from recap.core.errors import DamagedData, DataError, MissingData, listed
from recap.core.process import cause
from recap.data.files.archives import DAMAGED
from recap.data.tokenizer import is_storable

_SPACE = re.compile(r"[ \t\n\r]*")
_PARSER = json.JSONDecoder()


def _storable(text: str) -> str:
    if not is_storable(text):
        raise ValueError("half of a surrogate pair cannot be stored")
    return text


Id = Annotated[int, Field(ge=0, lt=2**63)]  # of an image or a caption
String = Annotated[str, AfterValidator(_storable)]
Text = Annotated[String, Field(min_length=1)]


class Entry(BaseModel):
    """An entry of a foreign file; other keys that it has are passed over."""

    model_config = ConfigDict(strict=True, frozen=True)


EntryT = TypeVar("EntryT", bound=Entry)


def parsed(kind: type[EntryT], value: Any, where: str) -> EntryT:
    """Return an entry of a foreign file; what is wrong with it is one sentence with its place and key."""
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise DataError(f"{where}: {first_problem(error, kind)}; correct it, or remove the entry") from error


# ---- CSV


def csv_entries(path: Path, kind: type[EntryT]) -> Iterator[tuple[str, EntryT]]:
    """Yield place and entry of each row of a CSV; columns that the model does not name are ignored."""
    rows = csv_rows(path)
    names = next(rows)[1]
    for name in kind.model_fields:
        if names.count(name) != 1:
            wrong = f"there are two columns {name!r}" if name in names else f"there is no column {name!r}"
            needed, present = ", ".join(kind.model_fields), listed(names, 20)[:100] or "none"
            raise DataError(f"{path}: line 1: {wrong}; it must name {needed}, and names {present}")
    for line, values in rows:
        where = f"{path}: line {line}"
        yield where, parsed(kind, dict(zip(names, values, strict=True)), where)


def csv_rows(path: Path, separators: str = ",;\t", **form: Any) -> Iterator[tuple[int, list[str]]]:
    """Yield line and cells of the header, then of each row of a CSV in UTF-8, one at a time; empty rows are left out.

    The separator is the one that the first line uses most (Excel writes semicolons where a comma is the decimal point).
    """
    if not path.is_file():
        raise MissingData(f"{path}: no such CSV file; correct its name or the inputs folder")
    line, columns = 1, None
    try:
        # A byte that is no UTF-8 becomes half of a surrogate pair, which is refused with the number of the line.
        with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as lines:
            header = lines.readline()
            form |= {"delimiter": max(separators, key=header.count), "strict": True}
            rows = csv.reader(lines, **form)
            for values in chain(csv.reader([header or "\n"], **form), rows):
                where = f"{path}: line {line}"
                if not is_storable("".join(values)):
                    raise DataError(f"{where}: not UTF-8; save the file as UTF-8 (Excel: 'CSV UTF-8')")
                cells = [value.strip() for value in values]
                if columns is None or any(cells):
                    columns = len(cells) if columns is None else columns
                    if len(cells) != columns:
                        raise DataError(
                            f"{where}: {len(cells)} columns where the first line has {columns}; put double quotes "
                            "around a caption with a separator in it"
                        )
                    yield line, cells
                line = rows.line_num + 2
    except (OSError, csv.Error) as error:
        raise DataError(
            f"{path}: line {line}: not a valid CSV row ({error}); put double quotes around a caption with a separator "
            "or a quote in it, and double each quote in it"
        ) from error


# ---- JSON


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
            name: _Text(content.decode(json.detect_encoding(content), "surrogatepass"))
            for name, content in _contents(path, pattern)
        }
    _need_one(path, texts)
    (text,) = texts.values()
    lists, empty = 0, True
    with _readable(path):
        if text.next() != "{":
            text.value()
            raise DataError(f"{path}: the file must be a JSON object; is this the JSON that the settings name?")
        for _ in text.parts("{", "}"):
            name = text.value() if text.next() == '"' else text.refuse("property name")
            text.take(":")
            if name != key:
                text.value()
                continue
            lists += 1
            if lists > 1 or text.next() != "[":
                break
            for _ in text.parts("[", "]"):
                empty = False
                yield text.value()
        else:
            if text.next():
                text.refuse("end")
    if lists != 1 or empty:
        raise DataError(f"{path}: no list of {key} under the key {key!r}, or several; is this a Karpathy JSON?")


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
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if not name.startswith("__MACOSX/") and fnmatchcase(name.rsplit("/", 1)[-1], pattern):
                yield name, archive.read(name)


class _Text:
    """A JSON text and the place up to which it was read; JSONDecodeError where it is not valid."""

    def __init__(self, text: str) -> None:
        self.text, self.place = text, 0

    def next(self) -> str:
        """Return the next character that is no white space without reading it; '' at the end."""
        self.place += len(_SPACE.match(self.text, self.place)[0])  # type: ignore[index]  # it may match nothing
        return self.text[self.place : self.place + 1]

    def refuse(self, expected: str) -> NoReturn:
        """Refuse the text at this place."""
        raise json.JSONDecodeError(f"Expecting {expected}", self.text, self.place)

    def take(self, *characters: str) -> str:
        """Read the next character, which must be one of some."""
        character = self.next()
        if character not in characters:
            self.refuse(" or ".join(characters))
        self.place += 1
        return character

    def value(self) -> Any:
        """Read a value of any kind."""
        self.next()
        value, self.place = _PARSER.raw_decode(self.text, self.place)
        return value

    def parts(self, opening: str, closing: str) -> Iterator[None]:
        """Read a list or an object; whoever takes the next part must read it before the next one."""
        self.take(opening)
        if self.next() == closing:
            self.take(closing)
            return
        yield
        while self.take(",", closing) == ",":
            yield
