"""The tables of the papers hold every number, deviation and p that is printed, and produced tables show every doubt."""

import json
from pathlib import Path

import pytest

from helpers.invented_scores import invented_statistics
from helpers.plans import PARAMS, planned
from recap.reporting.content import table_content
from recap.reporting.markdown import markdown_table
from recap.reporting.text import plain
from recap.settings.param_files import names
from recap.settings.params import load_named

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "printed.json").read_text())
KEYS = ("printed", "printed_sd", "printed_p")
TABLES = {name: load_named(PARAMS, "tables", name) for name in names(PARAMS, "tables")}


def rows(table):
    return [*table.quoted, *table.not_run, *table.rows]


def doubts(table):
    return [(row.id, text) for row in rows(table) for text in row.doubt.values()]


DOUBTED = [name for name, table in TABLES.items() if doubts(table)]


def test_every_printed_number_deviation_and_p_is_that_of_the_paper():
    found = {f"{name}/{row.id}": row for name, table in TABLES.items() for row in rows(table)}
    for row, printed in GOLDEN.items():
        held = {key: getattr(found[row], key, {}) for key in KEYS}
        assert {key: values for key, values in held.items() if values} == printed, row
    counts = {key: sum(len(row.get(key, {})) for row in GOLDEN.values()) for key in KEYS}
    assert counts == {"printed": 1577, "printed_sd": 144, "printed_p": 68}


def test_no_doubt_is_lost():
    assert sum(len(doubts(table)) for table in TABLES.values()) == 76


@pytest.mark.parametrize("name", DOUBTED)
def test_a_produced_table_shows_every_doubt_and_printed_p(name, tmp_path):
    plan = planned(PARAMS, None, [name])
    table = plan.tables[name]
    statistics = invented_statistics(table, plan.seeds[name][:1], tmp_path, images=4)
    content = table_content(table, statistics)
    shown = plain(markdown_table(content))
    missing = [
        (row, text) for row, text in doubts(TABLES[name]) if plain(text).rstrip(".").replace("<", "&lt;") not in shown
    ]
    assert missing == []
    blocks = {block.label.removesuffix(" (baseline)"): block.lines for block in content.blocks}
    for row in rows(TABLES[name]):
        lines = (
            [line.entries for line in blocks[plain(row.label)] if line.kind == "p, printed"] if row.printed_p else []
        )
        texts = {column: entry.text for line in lines for column, entry in zip(table.columns, line, strict=True)}
        assert {column: float(texts[column]) for column in row.printed_p} == row.printed_p
