"""Tables tell apart rows that are quoted,
own rows that were not run, and scores that COCO's server gave."""

import csv
import io
import re
from datetime import date

import pytest

from helpers.score_files import write_run
from helpers.server_workspace import answer
from recap.core.checksums import record
from recap.plan.run import row_runs
from recap.settings import Table
from recap.settings.params import validate
from recap.share.coco_server import import_answer
from recap.statistics.compare import compare_table
from recap.tables.formats import write_table

ROW = {"dataset": "d", "features": "f", "model": "m", "recipe": "r"}
TABLE = {
    "title": "T",
    "scale": "",
    "columns": ["c5.CIDEr", "c40.CIDEr"],
    "baseline": "sent",
    "server": {
        "test": "pictures",
        "not_sent": {"unsent": "no features of its test pictures exist"},
    },
    "quoted": [{"id": "theirs", "label": "Theirs", "printed": {"c5.CIDEr": 99.0}}],
    "not_run": [
        {
            "id": "lost",
            "label": "Lost",
            "printed": {"c5.CIDEr": 98.0},
            "reason": "nothing was released",
        }
    ],
    "rows": [
        {**ROW, "id": "sent", "label": "Sent", "printed": {"c5.CIDEr": 97.0}},
        {**ROW, "id": "better", "label": "Better", "model": "m2"},
        {**ROW, "id": "unsent", "label": "Unsent", "model": "m3"},
    ],
}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Return the texts of all files of the table, by ending, after two of three rows were
    answered."""
    tmp_path = tmp_path_factory.mktemp("table")
    table = validate(Table, TABLE, "table")
    folders = {}
    for number, row in enumerate(table.rows[:2]):
        (run,) = row_runs(row, [1])
        folders[run.path] = folder = tmp_path / f"t_{row.id}"
        folder.mkdir()
        captions = folder / f"captions_test2014_t_{row.id}_results.json"
        captions.write_text("[]")
        record(captions)
        (tmp_path / "answer.json").write_text(answer(CIDEr=1.2 + number / 10))
        import_answer(
            answer=tmp_path / "answer.json", submission=folder, day=date(2026, 11, 20 + number)
        )
    for row in table.rows:
        (run,) = row_runs(row, [1])
        write_run(tmp_path / "scores" / run.path, {"CIDEr": [0.4, 0.5]}, ids=(1, 2), not_run=())
    out = tmp_path / "statistics.json"
    statistics = compare_table(
        table=table,
        name="t",
        seeds=[1],
        scores_root=tmp_path / "scores",
        statistics_out=out,
        server=folders,
    )
    files = write_table(name="t", table=table, statistics=statistics, out=tmp_path)
    return {file.name.removeprefix("t."): file.read_text() for file in files}


def test_every_table_says_which_rows_are_whose(written):
    for ending in ("md", "html", "tex"):
        text = written[ending]
        assert "Theirs (printed, not run)" in text and "Lost (own, not run)" in text
        assert "Own, not run: no features of its test pictures exist." in text
        assert (
            "ours, COCO server, 2026-11-20 (" in text and "ours, COCO server, 2026-11-21 (" in text
        )
    for ending in ("md", "html", "tex", "paper.md", "paper.tex", "paper.csv"):
        assert "Own, not run: nothing was released." in written[ending]
    assert all(
        "Scored by COCO server, 2026-11-20." in written[f"paper.{ending}"]
        for ending in ("md", "tex", "csv")
    )


def test_scores_of_the_server_stand_in_their_row_and_are_not_tested(written):
    lines = [re.split(r"\s*\|\s*", line) for line in written["md"].splitlines()]
    ours = [line[2:4] for line in lines if len(line) > 3 and line[1].startswith("ours, COCO")]
    assert ours == [["120.0", "129.0"], ["130.0", "129.0"]]
    difference = [line[2:4] for line in lines if len(line) > 3 and line[1] == "ours minus baseline"]
    assert difference == [["+10.00", "+0.00"]]
    assert not [line for line in lines if len(line) > 3 and line[1].startswith("p, ")]
    assert "c5 and c40: scores of COCO's server" in written["md"]


def test_the_csv_has_the_source_of_each_score(written):
    lines = {line.split(",")[2]: line for line in written["csv"].splitlines()[1:]}
    assert "COCO server, 2026-11-20" in lines["sent"]
    assert (
        "own, not run: nothing was released" in lines["lost"]
        and "printed in the paper" in lines["theirs"]
    )
    rows = {row["row"]: row["source"] for row in csv.DictReader(io.StringIO(written["paper.csv"]))}
    assert rows == {
        "Theirs": "printed",
        "Lost": "own, not run: nothing was released",
        "Sent": "run, scored by COCO server, 2026-11-20",
        "Better": "run, scored by COCO server, 2026-11-21",
        "Unsent": "own, not run: no features of its test pictures exist",
    }
