"""The tables of the papers hold every number, deviation and p
that is printed, and produced tables show every doubt."""

import json
import tempfile
from functools import cache
from pathlib import Path

import pytest

from helpers.invented_scores import invented_statistics
from helpers.plans import PARAMS, planned
from recap.plan.claims import papers_with_claims, read_claims
from recap.settings.params import load_named, names
from recap.settings.specs import ClaimsSpec
from recap.statistics.claims import judge_claims
from recap.tables.claims import claims_table
from recap.tables.formats import markdown_table
from recap.tables.frame import table_frame
from recap.tables.styles import full_table
from recap.tables.text import plain

FOLDER = Path(__file__).parents[2] / "golden"
GOLDEN = json.loads((FOLDER / "printed.json").read_text())
DOUBTS = json.loads((FOLDER / "doubts.json").read_text(encoding="utf-8"))
KEYS = ("printed", "printed_sd", "printed_p")
TABLES = {name: load_named(PARAMS, "tables", name) for name in names(PARAMS, "tables")}


def rows(table):
    return [*table.quoted, *table.not_run, *table.rows]


def doubts(table):
    return [(row.id, text) for row in rows(table) for text in row.doubt.values()]


DOUBTED = [name for name, table in TABLES.items() if doubts(table)]
SHOWN = list(dict.fromkeys(each["shown_in"] for each in DOUBTS))


def test_every_printed_number_deviation_and_p_is_that_of_the_paper():
    found = {f"{name}/{row.id}": row for name, table in TABLES.items() for row in rows(table)}
    for row, printed in GOLDEN.items():
        held = {key: getattr(found[row], key, {}) for key in KEYS}
        assert {key: values for key, values in held.items() if values} == printed, row
    counts = {key: sum(len(row.get(key, {})) for row in GOLDEN.values()) for key in KEYS}
    assert counts == {"printed": 1577, "printed_sd": 144, "printed_p": 68}


def test_what_our_own_tables_repeat_of_the_print_is_in_a_table_of_the_paper():
    printed = [
        (name, row.printed) for name, table in TABLES.items() for row in rows(table) if row.printed
    ]
    papers = [row.items() for name, row in printed if not name.startswith("recap/")]
    repeated = [(name, row) for name, row in printed if name.startswith("recap/")]
    assert repeated
    assert [each for each in repeated if not any(each[1].items() <= row for row in papers)] == []


@cache
def plan():
    """The plan of every table that is looked at, without a scale."""
    return planned(PARAMS, None, [name for name in TABLES if name in (*DOUBTED, *SHOWN)])


@cache
def produced(name):
    """The full table of a table of invented scores."""
    # there are no trainings to choose among
    table = plan().tables[name].model_copy(update={"selections": []})
    with tempfile.TemporaryDirectory() as folder:
        statistics = invented_statistics(table, plan().seeds[name][:1], Path(folder), images=4)
    return full_table(table_frame(table, statistics))


def shown(place):
    """The text of a produced table, of the claims of all papers, or below the table of a study."""
    if place == "claims":
        claims = [
            claim for paper in papers_with_claims(PARAMS) for claim in read_claims(PARAMS, paper)
        ]
        verdicts = judge_claims(ClaimsSpec(scale="paper", claims=claims, tables={}), Path())
        return plain(markdown_table(claims_table(verdicts, "paper")))
    if place in TABLES:
        return plain(markdown_table(produced(place)))
    return plain(load_named(PARAMS, "studies", place).source)


@pytest.mark.parametrize("name", DOUBTED)
def test_a_produced_table_shows_every_doubt_and_printed_p(name):
    text, columns = shown(name), TABLES[name].columns
    missing = [
        (row, doubt)
        for row, doubt in doubts(TABLES[name])
        if plain(doubt).rstrip(".").replace("<", "&lt;") not in text
    ]
    assert missing == []
    blocks = {
        block.label.removesuffix(" (baseline)"): block.lines for block in produced(name).blocks
    }
    for row in (row for row in rows(TABLES[name]) if row.printed_p):
        (line,) = (line.cells for line in blocks[plain(row.label)] if line.label == "p, printed")
        texts = {column: entry.text for column, entry in zip(columns, line, strict=True)}
        assert {column: float(texts[column]) for column in row.printed_p} == row.printed_p


@pytest.mark.parametrize("place", SHOWN)
def test_every_doubt_about_the_print_is_shown(place):
    """``as`` has the words that are shown, where they are not those of the doubt."""
    text = shown(place)
    missing = [
        each
        for each in DOUBTS
        if each["shown_in"] == place and each.get("as", each["doubt"]) not in text
    ]
    assert missing == []


def test_the_doubts_are_all_that_are_known():
    assert sum(len(doubts(table)) for table in TABLES.values()) == 77
    assert len(DOUBTS) == 113 and len({(each["id"], each["doubt"]) for each in DOUBTS}) == 113
