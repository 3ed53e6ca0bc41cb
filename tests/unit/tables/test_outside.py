"""Rows whose captions are from a file: scored alike,
compared over images, marked as outside, never over runs."""

import csv
import io

import pytest

from helpers.plans import PARAMS, edited, missing, planned
from helpers.refusals import refused
from helpers.score_files import SIGNATURE, compared, make_table, table_texts, write_run
from recap.core.errors import MetricError
from recap.plan.run import outside_path, row_runs

pytestmark = pytest.mark.seconds

ROW = {
    "id": "theirs",
    "label": "Large & <b>model</b>",
    "captions": "theirs/captions.json",
    "printed": {"CIDEr": 140.0},
}
FILE_SIGNATURE = SIGNATURE.replace("beam:3|len:20|lp:0", "captions:outside@12345678")
IMAGES = range(40)
BASE = {"CIDEr": [0.5 + 0.002 * i for i in IMAGES]}
BETTER = {"CIDEr": [score + 0.3 + 0.01 * (i % 5) for i, score in enumerate(BASE["CIDEr"])]}


def outside_table():
    return make_table(columns=["CIDEr"], outside=[ROW])


def with_outside(tmp_path, table, signature=FILE_SIGNATURE, ids=IMAGES):
    scores = tmp_path / "scores"
    for row in table.rows:
        for number, run in enumerate(row_runs(row, [1, 2, 3])):
            shifted = {"CIDEr": [value + 0.001 * number for value in BASE["CIDEr"]]}
            write_run(scores / run.path, shifted, ids=IMAGES, not_run=())
    write_run(
        scores / outside_path(table, "two", "theirs"),
        BETTER,
        ids=ids,
        signature=signature,
        not_run=(),
    )
    return compared(tmp_path, table, [1, 2, 3])


def test_a_file_is_compared_over_images_and_never_marked(tmp_path):
    result = with_outside(tmp_path, outside_table())
    (row,) = result.outside
    cell = row.cells["CIDEr"]
    assert cell.n == 1 and cell.sd is None and list(cell.values) == ["file"]
    assert cell.comparison.difference == pytest.approx(0.319)
    assert cell.comparison.paired.p_holm < 1e-6 and cell.comparison.paired.low > 0.3
    assert cell.comparison.welch.p is None and cell.comparison.joint.p is None
    assert cell.comparison.mark == 0
    assert result.family.made == 2 and result.family.tests["welch.p"] == 1
    assert [row.id for row in result.rows] == ["transformer", "zodiac"]


def test_every_format_says_that_the_captions_are_from_outside(tmp_path):
    table = outside_table()
    result = table_texts(tmp_path, table, with_outside(tmp_path, table))
    for ending in ("md", "html", "tex"):
        assert "captions from outside" in result[ending], ending
        assert "theirs/captions.json" in result[ending], ending
    for ending in ("paper.md", "paper.tex", "paper.csv"):
        assert "aptions from outside" in result[ending], ending
    assert "<b>model" not in result["html"]
    line = next(
        line for line in csv.DictReader(io.StringIO(result["csv"])) if line["id"] == "theirs"
    )
    assert line["reason"].startswith("captions from outside: theirs/captions.json")
    assert (
        line["model"] == line["features"] == ""
        and float(line["paired_p_holm"]) < 1e-6
        and line["mark"] == "0"
    )
    block = result["md"].split("(captions from outside)")[1]
    assert "p, images" in block and "p, runs" not in block.split("\n\n")[0]
    assert "scored here" in block and "140.0" in block


@pytest.mark.parametrize("wrong", ["other images", "another tokenizer"])
def test_captions_that_were_scored_in_another_way_are_refused(wrong, tmp_path):
    changes = {
        "other images": {"ids": [image + 1 for image in IMAGES]},
        "another tokenizer": {"signature": FILE_SIGNATURE.replace("ptb", "simple")},
    }
    with refused(MetricError, "theirs"):
        with_outside(tmp_path, outside_table(), **changes[wrong])


def test_a_row_from_outside_is_planned_without_a_training(params):
    edited(params, "recap/tables/demo.yaml", outside=[ROW])
    plain = planned(PARAMS, scale=None, tables=["recap/demo"], seeds=[1])
    plan = planned(params, scale=None, tables=["recap/demo"], seeds=[1])
    assert plan.trained == plain.trained and plan.scored == plain.scored
    (scored,) = plan.scored_files
    assert (
        scored.path == f"{scored.dataset}/outside/recap_demo/theirs" and "CIDEr" in scored.metrics
    )
    assert {each.path: each.named_by for each in missing(plan)}[
        "resources/theirs/captions.json"
    ] == "tables/recap/demo.yaml"


def test_a_row_of_the_data_set_that_a_scale_takes_is_scored_there(params):
    edited(params, "recap/tables/demo.yaml", outside=[{**ROW, "dataset": "scenes_small"}])
    (scored,) = planned(params, scale="scenes", tables=["recap/demo"]).scored_files
    assert scored.dataset == "scenes_small"
    table = planned(params, scale=None, tables=["recap/demo"]).tables["recap/demo"]
    assert table.outside == [] and [row.id for row in table.quoted] == ["theirs"]
