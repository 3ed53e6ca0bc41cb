"""Entries of foreign files, each checked by a pydantic model: JSON, JSON in a zip, and CSV."""

from __future__ import annotations

import csv
import json
import re
import zipfile
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from recap.core.documents import first_problem
from recap.core.errors import DataError, listed
from recap.core.files import reading
from recap.data.tokenizer import is_storable

_SEPARATOR = re.compile(r"\s*([,\]])\s*")
_DECODER = json.JSONDecoder()

Id = Annotated[int, Field(ge=0, lt=2**63)]  # of an image or a caption
# with a bound, pydantic refuses half of a surrogate pair
String = Annotated[str, Field(min_length=0)]
Text = Annotated[str, Field(min_length=1)]


class Entry(BaseModel):
    """An entry of a foreign file; other keys that it has are passed over."""

    model_config = ConfigDict(strict=True, frozen=True)


EntryT = TypeVar("EntryT", bound=Entry)


def parsed(kind: type[EntryT], value: Any, where: str) -> EntryT:
    """Return an entry of a foreign file.

    What is wrong with it is one sentence with its place and key.
    """
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise DataError(
            f"{where}: {first_problem(error, kind)}; correct it, or remove the entry"
        ) from error


# ---- CSV


def csv_entries(path: Path, kind: type[EntryT]) -> Iterator[tuple[str, EntryT]]:
    """Yield place and entry of each row of a CSV.

    Columns that the model does not name are ignored.
    """
    rows = csv_rows(path)
    names = next(rows)[1]
    for name in kind.model_fields:
        if names.count(name) != 1:
            needed = ", ".join(kind.model_fields)
            raise DataError(
                f"{path}: line 1: there are {names.count(name)} columns {name!r}; it must name "
                f"{needed} once each, and names {listed(names, 20)[:100]}"
            )
    for line, values in rows:
        where = f"{path}: line {line}"
        yield where, parsed(kind, dict(zip(names, values, strict=True)), where)


def csv_rows(path: Path, separators: str = ",;\t", **form: Any) -> Iterator[tuple[int, list[str]]]:
    """Yield line and cells of the header, then of each row
    of a CSV in UTF-8, one at a time; empty rows are left out.

    The separator is the one that the first line uses most (Excel writes semicolons where a comma is
    the decimal point).
    """
    line, columns = 1, 0
    # A byte that is no UTF-8 becomes half of a surrogate pair,
    # which is refused with the number of the line.
    with (
        reading(path, DataError, missing="correct its name or the inputs folder"),
        path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as lines,
    ):
        header = lines.readline()
        form |= {"delimiter": max(separators, key=header.count), "strict": True}
        lines.seek(0)
        rows = csv.reader(lines if header else ["\n"], **form)
        try:
            for values in rows:
                if not is_storable("".join(values)):
                    raise DataError(
                        f"{path}: line {line}: not UTF-8; save the file as UTF-8 (Excel: 'CSV "
                        "UTF-8')"
                    )
                cells = [value.strip() for value in values]
                if columns and any(cells) and len(cells) != columns:
                    raise csv.Error(f"{len(cells)} columns where the first line has {columns}")
                if not columns or any(cells):
                    columns = len(cells) or 1
                    yield line, cells
                line = rows.line_num + 1
        except csv.Error as error:
            raise DataError(
                f"{path}: line {line}: not a valid CSV row ({error}); put double quotes around a "
                "caption with a separator or a quote in it, and double each quote in it"
            ) from error


# ---- JSON


def read_json_of(path: Path, pattern: str = "*.json") -> Any:
    """Return the content of a JSON file, or of the one in a zip whose base name fits."""
    with _reading(path):
        return json.loads(_only(path, pattern))


def read_jsons(path: Path) -> dict[str, Any]:
    """Return the contents of all captions_*.json in a zip, by name; a lone JSON as is."""
    with _reading(path):
        return {name: json.loads(text) for name, text in _contents(path, "captions_*.json")}


def each_of(path: Path, pattern: str, key: str) -> Iterator[Any]:
    """Yield the elements of the list that the object in a JSON file,
    or in the one of a zip, has under a key.

    Memory holds the text and one element; COCO's captions, read whole, take six times their text.
    """
    with _reading(path):
        content = _only(path, pattern)
        text = content.decode(json.detect_encoding(content), "surrogatepass")
        del content
        opening = re.search(rf'"{key}"\s*:\s*\[\s*', text)
        start = place = opening.end() if opening else 0
        more = opening is not None and text[place : place + 1] != "]"
        while more:
            value, place = _DECODER.raw_decode(text, place)
            yield value
            separator = _SEPARATOR.match(text, place)
            if separator is None:
                raise json.JSONDecodeError("Expecting ',' or ']'", text, place)
            more = separator[1] == ","
            place = separator.end() if more else separator.start(1)
        # What is left has the list without its elements, and nothing else under this key.
        rest = json.loads(text[:start] + text[place:])
    if not isinstance(rest, dict) or rest.get(key) != [] or start == place:
        raise DataError(
            f"{path}: is no JSON object with one list under the key {key!r}; is this the right "
            "file?"
        )


def _reading(path: Path) -> Any:
    return reading(path, DataError, missing="correct the key 'annotations' or the inputs folder")


def _only(path: Path, pattern: str) -> bytes:
    files = dict(_contents(path, pattern))
    if len(files) != 1:
        names = ", ".join(files) or "none"
        raise DataError(
            f"{path}: expected one JSON in the zip, but there are {names}; name one JSON instead"
        )
    return files.popitem()[1]


def _contents(path: Path, pattern: str) -> Iterator[tuple[str, bytes]]:
    """Yield name and bytes of a lone file, or of each in a zip whose base name fits a pattern."""
    if not zipfile.is_zipfile(path):
        yield path.name, path.read_bytes()
        return
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if not name.startswith("__MACOSX/") and fnmatchcase(name.rsplit("/", 1)[-1], pattern):
                yield name, archive.read(name)
