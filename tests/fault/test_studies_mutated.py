"""Damaged inputs by the hundred for each file that a human study reads:
read, or refused in a sentence."""

import io
import json
import sqlite3
import zipfile

import pytest

from helpers.mutate import COUNT, outcomes
from helpers.studies import make, position_of, study_of
from recap.core.log import log
from recap.studies.forms import inside, page
from recap.studies.make import read_pictures
from recap.studies.responses import collect, read_responses, simulate
from recap.studies.server import Store, links
from recap.studies.sheets import read_sheets

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    """Thousands of messages that a file was written help nobody."""
    monkeypatch.setattr(log, "disabled", True)


@pytest.fixture(scope="module", params=["recap/preference", "recap/objects"])
def made(request, tmp_path_factory):
    """A small study of each kind."""
    study = study_of(request.param, images=3, items=3, raters=2, pixels=64, gold={"count": 2})
    return make(tmp_path_factory.mktemp("small"), study, 12)


@pytest.fixture
def responses(made):
    preference = made.sheets.study.kind == "preference"
    return made.responses(lambda item, _: position_of(item, "acf") if preference else "no")


def check(path, read, *originals, least=COUNT / 100):
    """Give mutants of a file to what reads it.

    Least so many must be refused, or they would test nothing.
    """

    def parse(content):
        path.write_bytes(content)
        return read(path)

    for content in originals:
        parse(content)
    found = outcomes(parse, originals, COUNT)
    assert found.failures == []
    assert found.total == COUNT and found.refused > least


def collected(made, path):
    """Collect the responses of a file, and write the result as the command does."""
    found = collect(made.sheets, read_responses([path], made.sheets.digest))
    json.dumps(found.model_dump(mode="json"), ensure_ascii=False).encode()


def test_files_of_pages(made, responses, tmp_path):
    one = json.loads(responses[0].content())
    one["seconds"] = {"1": 2.5, "2": 30}
    check(
        tmp_path / "a.json",
        lambda path: collected(made, path),
        json.dumps(one).encode(),
        json.dumps([one]).encode(),
    )


def test_the_file_of_the_server(made, responses, tmp_path):
    store = Store(tmp_path / "original.sqlite")
    for response in responses:
        store.add(response.sheet, response.content())
    assert not (tmp_path / "original.sqlite-wal").exists()
    content = (tmp_path / "original.sqlite").read_bytes()
    check(tmp_path / "a.sqlite", lambda path: collected(made, path), content)


def test_tables_of_a_crowd_platform_and_of_typed_answers(made, responses, tmp_path):
    first = responses[0]
    answers = [
        (item, question, answer)
        for item, given in first.answers.items()
        for question, answer in given.items()
    ]
    typed = "sheet,item,question,answer\n" + "".join(
        f"{first.sheet},{','.join(each)}\n" for each in answers
    )
    names = [
        "Input.sheet",
        "Answer.consent",
        *(f"Answer.{item}.{question}" for item, question, _ in answers),
    ]
    crowd = ",".join(names) + f"\n{first.sheet},on,{','.join(answer for *_, answer in answers)}\n"
    check(tmp_path / "a.csv", lambda path: collected(made, path), typed.encode(), crowd.encode())


def test_sheets_and_what_is_made_of_them(made, tmp_path):
    pictures = inside(read_pictures(made.folder / "pictures.zip", made.sheets.pictures))

    def read(path):
        sheets = read_sheets(path)
        simulate(sheets=path, out=tmp_path / "out" / "simulated.json")
        for sheet in sheets.sheets:
            page(sheets, sheet, pictures).encode()

    check(tmp_path / "sheets.json", read, (made.folder / "sheets.json").read_bytes())


def test_pictures(made, tmp_path):
    stored = io.BytesIO()
    with (
        zipfile.ZipFile(made.folder / "pictures.zip") as packed,
        zipfile.ZipFile(stored, "w") as archive,
    ):
        for name in packed.namelist():
            archive.writestr(name, packed.read(name))
    originals = [(made.folder / "pictures.zip").read_bytes(), stored.getvalue()]
    check(
        tmp_path / "pictures.zip",
        lambda path: read_pictures(path, made.sheets.pictures),
        *originals,
    )


def test_links(made, tmp_path):
    links(made.sheets, tmp_path / "original.csv", "http://127.0.0.1:8765")

    def read(path):
        assert all(token.isascii() for token in links(made.sheets, path, "http://127.0.0.1:8765"))

    check(tmp_path / "links.csv", read, (tmp_path / "original.csv").read_bytes())


@pytest.mark.parametrize("bad", [None, b"\xff\xfe\x00", "{", "9" * 5000, "[" * 100_000, 3])
def test_one_damaged_row_of_the_server_costs_no_other(made, responses, tmp_path, bad):
    with sqlite3.connect(tmp_path / "a.sqlite") as connection:
        connection.execute(
            "CREATE TABLE submissions (number INTEGER PRIMARY KEY, sheet TEXT, content TEXT)"
        )
        rows = [(responses[0].content(),), (bad,), (responses[1].content(),)]
        connection.executemany("INSERT INTO submissions (content) VALUES (?)", rows)
    found = collect(made.sheets, read_responses([tmp_path / "a.sqlite"], made.sheets.digest))
    assert (
        len(found.raters) == 2
        and len(found.refused) == 1
        and "a.sqlite submission 2 is no" in found.refused[0]
    )
