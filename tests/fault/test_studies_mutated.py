"""Damaged inputs by the hundred for each file that a human study reads:
read, or refused in a sentence."""

import json

import pytest

from helpers.mutate import COUNT, outcomes
from helpers.studies import make, position_of, study_of
from recap.core.log import log
from recap.studies.forms import page
from recap.studies.responses import collect, read_responses, simulate
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
    one = json.loads(responses[0].model_dump_json())
    one["seconds"] = {"1": 2.5, "2": 30}
    check(
        tmp_path / "a.json",
        lambda path: collected(made, path),
        json.dumps(one).encode(),
        json.dumps([one]).encode(),
    )


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
    def read(path):
        sheets = read_sheets(path)
        simulate(sheets=path, out=tmp_path / "out" / "simulated.json")
        for sheet in sheets.sheets:
            page(sheets, sheet, str).encode()

    check(tmp_path / "sheets.json", read, (made.folder / "sheets.json").read_bytes())
