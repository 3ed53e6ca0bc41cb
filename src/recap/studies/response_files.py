"""Reads responses from the files in which they come: of pages, of the server, of a crowd platform, typed from paper."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recap.core.errors import DataError, MissingData
from recap.studies.responses import Answers, Response, as_response
from recap.studies.sheets import item_number, sheet_id
from recap.studies.store import read_store

_CROWD = re.compile(r"Answer\.(\d+)\.([a-z0-9_.]+?)(?:\.(no|yes|\d))?$")
_TYPED = ("sheet", "item", "question", "answer")
_MAX_BYTES = 2**28


@dataclass(frozen=True)
class Found:
    """One response or the reason why there is none."""

    source: str  #: file, and line or form
    response: Response | None  #: None if it cannot be read
    problem: str = ""  #: why
    rater: str = ""  #: who answered, if the file tells one person from another; never written anywhere


def read_responses(paths: Iterable[Path], study: str) -> Iterator[Found]:
    """Yield the responses of files and folders, in the order of their names.

    ``.json``: a page's file. ``.sqlite``: the server's. ``.csv``: a crowd platform's results (``Input.sheet``,
    ``Answer.<item>.<question>``), or what was typed from paper forms (``sheet,item,question,answer``).

    Args:
        paths: files, or folders of such files.
        study: digest that the responses of CSV files, which do not name it, are given.
    """
    for path in paths:
        if not path.exists():
            raise MissingData(f"{path}: no such file or folder of responses")
        files = sorted(file for file in path.iterdir() if file.suffix in _READERS) if path.is_dir() else [path]
        if not files:
            raise DataError(f"{path}: holds no responses ({', '.join(_READERS)}); put them there")
        for file in files:
            if file.suffix not in _READERS:
                raise DataError(f"{file}: responses are {', '.join(_READERS)} files")
            if file.stat().st_size > _MAX_BYTES:
                raise DataError(f"{file}: is larger than {_MAX_BYTES // 2**20} MiB; no file of responses is")
            yield from _READERS[file.suffix](file, study)


def _read_json(path: Path, _: str) -> Iterator[Found]:
    """Yield the response of a page's file, or those of a list, which `recap study simulate` writes."""
    content = _parsed_json(path.read_bytes())
    for number, values in enumerate(content if isinstance(content, list) else [content], start=1):
        yield _parsed(f"{path}" if not isinstance(content, list) else f"{path} response {number}", values)


def _read_server(path: Path, _: str) -> Iterator[Found]:
    for number, content in read_store(path):
        yield _parsed(f"{path} submission {number}", _parsed_json(content or b""))


def _parsed_json(content: bytes) -> Any:
    """Return what JSON holds, or None: damaged JSON is no response."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def _parsed(source: str, values: Any) -> Found:
    try:
        return Found(source, as_response(values))
    except DataError as error:
        return Found(source, None, str(error))


def _read_csv(path: Path, study: str) -> Iterator[Found]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = list(csv.DictReader(file))
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path}: no CSV in UTF-8 ({error}); save it as such") from error
    names = set(lines[0]) if lines else set()
    if "Input.sheet" in names:
        yield from (_crowd_response(path, number, line, study) for number, line in enumerate(lines, start=2))
    elif set(_TYPED) <= names:
        yield from _typed_responses(path, lines, study)
    else:
        raise DataError(f"{path}: needs the columns {', '.join(_TYPED)}, or Input.sheet and Answer.<item>.<question>")


def _crowd_response(path: Path, line: int, row: Mapping[str, str | None], study: str) -> Found:
    """Return the response of one assignment; a question has one column of values, or one of true and false each."""
    answers: Answers = {}
    for column, value in row.items():
        found = _CROWD.fullmatch(column or "")
        if not found or not value:
            continue
        number, question, option = found.groups()
        if option is None:
            answers.setdefault(number, {})[question] = value.strip()
        elif value.strip().lower() in ("true", "on"):
            answers.setdefault(number, {})[question] = option
    consent = any(
        (row.get(name) or "").lower() in ("on", "true", "yes") for name in ("Answer.consent", "Answer.consent.on")
    )
    sheet = sheet_id(row.get("Input.sheet") or "")
    response = Response(study=study, sheet=sheet, consent=consent, finished=True, answers=answers)
    return Found(f"{path} line {line}", response, rater=row.get("WorkerId") or "")


def _typed_responses(path: Path, lines: list[dict[str, str]], study: str) -> Iterator[Found]:
    """Yield a response for each sheet that was typed from paper; raters agree by handing in the sheet."""
    sheets: dict[str, Answers] = {}
    twice: dict[str, str] = {}  # sheet -> what is wrong
    for number, line in enumerate(lines, start=2):
        sheet, item, question, answer = ((line.get(name) or "").strip() for name in _TYPED)
        sheet, item, answer = sheet_id(sheet), item_number(item), item_number(answer)
        answers = sheets.setdefault(sheet, {}).setdefault(item, {})
        if answers.setdefault(question, answer) != answer:
            twice.setdefault(sheet, f"has two answers to item {item} (line {number}); keep one")
    for sheet, typed in sheets.items():
        response = Response(study=study, sheet=sheet, consent=True, finished=True, answers=typed)
        yield Found(f"{path} sheet {sheet}", None if sheet in twice else response, twice.get(sheet, ""))


_READERS = {".csv": _read_csv, ".json": _read_json, ".sqlite": _read_server}
ENDINGS = tuple(_READERS)  # of files of responses
