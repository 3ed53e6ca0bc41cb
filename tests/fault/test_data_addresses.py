"""Every address of a list is asked once, without a download, and the answers are dated in the
list."""

import csv
import runpy
from datetime import date
from pathlib import Path
from types import SimpleNamespace

import pytest

from helpers.fetching import line, listed, noise
from helpers.web_server import serve
from recap.cli import main

SCRIPT = Path(__file__).resolve().parents[2] / ".ci" / "check_addresses.py"
script = SimpleNamespace(**runpy.run_path(str(SCRIPT)))


def answers_of(tmp_path, site, *lines):
    files = listed(tmp_path, *lines)
    answers = [script.answer_of(file, url, timeout=5) for file in files for url in file.urls]
    assert len(site.requests) == len(answers)
    assert not any(site.sent.values())
    return answers


def rows_of(tmp_path):
    with (tmp_path / "list.csv").open(newline="") as file:
        return {row["url"].rsplit("/", 1)[-1]: row for row in csv.DictReader(file)}


def test_answers_are_read_and_dated(tmp_path):
    faults = {
        "page": ["html"],
        "away": [(302, {"Location": "file:///etc/passwd"})],
        "shy": [(403, {})],
    }
    with serve({"a": noise(70), "b": noise(80)}, faults=faults) as site:
        urls = [
            line(f"d/{n}", f"{site.url}/{n}", size="70" if n in "ab" else "")
            for n in ("a", "b", "page", "away")
        ]
        answers = answers_of(
            tmp_path, site, *urls, line("d/shy", f"{site.url}/shy"), "d/own,1,own,,,,,x,,ask\n"
        )
    said = {answer.name: (answer.ok, answer.text) for answer in answers}
    assert said["d/a"] == (True, "200 OK")
    assert said["d/b"] == (False, "200 OK, but 80 bytes where the list says 70")
    assert said["d/page"] == (False, "200 OK, but a web page")
    assert said["d/shy"] == (False, "403 Forbidden")
    assert not said["d/away"][0] and "no address of the web" in said["d/away"][1]
    script.write_answers(tmp_path / "list.csv", answers, date(2026, 11, 24))
    rows = rows_of(tmp_path)
    assert (rows["a"]["checked_on"], rows["a"]["note"]) == ("2026-11-24", "")
    assert (rows["shy"]["checked_on"], rows["shy"]["note"]) == (
        "",
        "answer of 2026-11-24: 403 Forbidden",
    )
    assert rows[""]["note"] == "ask"


@pytest.mark.parametrize("note", ["the pack: 1. ask; 2. put it there", "ask"])
def test_steps_by_hand_are_lines(tmp_path, capsys, note):
    listed(tmp_path, f"d/own,1,own,,,,,research only,,{note}\n", line("d/a", "http://x/a"))
    main(["data", "by-hand", "--list", str(tmp_path / "list.csv"), "--into", "in"])
    parts = ["the pack", "1. ask", "2. put it there"] if "1." in note else ["ask"]
    assert capsys.readouterr().out == "\n  ".join(["in/d/own: research only", *parts]) + "\n"
