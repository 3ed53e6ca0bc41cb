"""Ask every address of the list of outside files once,
without downloading: .ci/check_addresses.py [--write] [NAME ...]

With --write, answers are dated in the list: `checked_on` where an address has the file, else the
end of the note.
"""

from __future__ import annotations

import argparse
import csv
import io
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

import requests

from recap.core.files import write_text
from recap.data.files.download import DownloadError, guarded_session, reason_of
from recap.settings.versions import OutsideFile, choose, read_versions

_DATED = re.compile(r"(; )?answer of \d{4}-\d\d-\d\d: .*$")


@dataclass(frozen=True)
class Answer:
    """What an address said: whether it has the file, in words, and the bytes that it announces."""

    name: str
    url: str
    ok: bool
    text: str
    bytes: int | None = None


def answer_of(file: OutsideFile, url: str, *, timeout: float = 30) -> Answer:
    """Ask an address by HEAD."""
    try:
        with guarded_session(url) as session:
            headers = {"Accept-Encoding": "identity", "User-Agent": "recap"}
            response = session.head(url, headers=headers, timeout=timeout, allow_redirects=True)
    except (DownloadError, requests.RequestException) as error:
        return Answer(file.name, url, False, reason_of(error).removeprefix(f"{url}: "))
    length = response.headers.get("Content-Length", "")
    size = int(length) if length.isdecimal() and response.ok else None
    text = f"{response.status_code} {response.reason}"
    if response.ok and None not in (size, file.bytes) and size != file.bytes:
        return Answer(
            file.name,
            url,
            False,
            f"{text}, but {size} bytes where the list says {file.bytes}",
            size,
        )
    if response.ok and response.headers.get("Content-Type", "").startswith("text/html"):
        return Answer(file.name, url, False, f"{text}, but a web page", size)
    return Answer(file.name, url, response.ok, text, size)


def write_answers(path: Path, answers: Sequence[Answer], today: date) -> None:
    """Date answers in a list."""
    by_address = {(answer.name, answer.url): answer for answer in answers}
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        rows, columns = list(reader), list(reader.fieldnames or [])
    for row in rows:
        if answer := by_address.get((row["name"], row["url"])):
            note = _DATED.sub("", row["note"])
            refusal = f"answer of {today}: {answer.text}"
            row["checked_on"] = str(today) if answer.ok else row["checked_on"]
            row["note"] = note if answer.ok else "; ".join(filter(None, [note, refusal]))
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(path, text.getvalue())


def main(words: Sequence[str] | None = None) -> None:
    """Print a line an address."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=["*"], metavar="NAME")
    parser.add_argument("--list", type=Path, default=Path("params/data_versions.csv"), dest="path")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(words)
    files = choose(read_versions(options.path), options.names, options.path)
    with ThreadPoolExecutor(4) as pool:
        answers = list(
            pool.map(
                lambda each: answer_of(*each), [(file, url) for file in files for url in file.urls]
            )
        )
    for answer in answers:
        size = "        ?" if answer.bytes is None else f"{answer.bytes / 2**30:9.3f}"
        print(
            f"{'yes' if answer.ok else 'NO '} {size} GiB  {answer.name}  {answer.url}  "
            f"({answer.text})"
        )
    print(f"{sum(answer.ok for answer in answers)} of {len(answers)} addresses have their file")
    if options.write:
        write_answers(options.path, answers, datetime.now(UTC).date())


if __name__ == "__main__":
    main()
