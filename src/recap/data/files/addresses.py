"""Asks every address of the list of outside files once, and dates the answers in it."""

from __future__ import annotations

import csv
import io
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from recap.core.files import write_text
from recap.core.process import at_once
from recap.data.files.redirects import DownloadError, guarded_session, reason_of
from recap.settings.versions import OutsideFile

_DATED = re.compile(r"(; )?answer of \d{4}-\d\d-\d\d: .*$")


@dataclass(frozen=True)
class Answer:
    """What an address said: whether it has the file, in words, and the bytes that it announces."""

    name: str
    url: str
    ok: bool
    said: str
    bytes: int | None


def check_addresses(files: Sequence[OutsideFile], *, timeout: float, workers: int) -> list[Answer]:
    """Ask each address of some files once, by HEAD: nothing is downloaded.

    Args:
        files: of the list.
        timeout: seconds to wait for a connection, and for an answer.
        workers: addresses asked at once.
    """
    asked = [(file, url) for file in files for url in file.urls]
    stop = threading.Event()
    return at_once(lambda each: _answer(*each, timeout=timeout), asked, workers=workers, stop=stop)


def write_answers(path: Path, answers: Sequence[Answer], today: date) -> None:
    """Date answers in a list: ``checked_on`` where an address has the file, else the end of the note."""
    known = {(answer.name, answer.url): answer for answer in answers}
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        rows, columns = list(reader), list(reader.fieldnames or [])
    for row in rows:
        if answer := known.get((row["name"], row["url"])):
            note = _DATED.sub("", row["note"])
            refusal = f"answer of {today}: {answer.said}"
            row["checked_on"] = str(today) if answer.ok else row["checked_on"]
            row["note"] = note if answer.ok else "; ".join(filter(None, [note, refusal]))
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(path, text.getvalue())


def _answer(file: OutsideFile, url: str, *, timeout: float) -> Answer:
    import requests

    headers = {"Accept-Encoding": "identity", "User-Agent": "recap"}
    try:
        with guarded_session(url) as session:
            response = session.head(url, headers=headers, timeout=timeout, allow_redirects=True)
    except DownloadError as error:
        return Answer(file.name, url, False, str(error).removeprefix(f"{url}: "), None)
    except requests.RequestException as error:
        return Answer(file.name, url, False, reason_of(error), None)
    length = response.headers.get("Content-Length", "")
    size = int(length) if length.isdecimal() and response.ok else None
    said = f"{response.status_code} {response.reason}"
    if response.ok and None not in (size, file.bytes) and size != file.bytes:
        return Answer(file.name, url, False, f"{said}, but {size} bytes where the list says {file.bytes}", size)
    if response.ok and response.headers.get("Content-Type", "").startswith("text/html"):
        return Answer(file.name, url, False, f"{said}, but a web page", size)
    return Answer(file.name, url, response.ok, said, size)
