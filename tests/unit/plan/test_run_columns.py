"""Columns of tables that are no metrics: from the files of trainings to every format of a table."""

import csv
import io
import json

import pytest

from helpers.plans import PARAMS, planned
from helpers.refusals import refused
from helpers.score_files import make_table, table_texts, write_scores
from recap.core.checksums import record
from recap.core.documents import read_json
from recap.core.errors import ChangedFile, DamagedFile
from recap.plan.run import row_runs, row_setting
from recap.plan.table_jobs import statistics_job
from recap.settings.tables import RUN_COLUMNS, RunColumn
from recap.statistics.compare import compare_table
from recap.statistics.results import TableResult

RUN = ["parameters", "validation CIDEr-D", "steps", "training hours"]
COLUMNS = ["METEOR", "CIDEr", *RUN]
SEEDS = [1, 2]
TRAINED = {
    "parameters": 54_321_000,
    "best_val_cider_d": 0.5,
    "steps": 1000,
    "seconds": 5400.0,
    "fresh": 7,
}


def compared(folder, **changes):
    """Statistics of a table whose runs have two stages of TRAINED.

    Each seed adds a tenth of validation CIDEr-D.
    """
    table = make_table(**{"columns": COLUMNS, **changes})
    write_scores(folder / "scores", table, SEEDS)
    runs = {}
    for row in table.rows:
        for seed, run in zip(SEEDS, row_runs(row, SEEDS), strict=False):
            runs[run.path] = [
                folder / "runs" / f"{row_setting(vars(run))}/seed-{seed}/{stage}"
                for stage in ("xe", "scst")
            ]
            for stage in runs[run.path]:
                stage.mkdir(parents=True, exist_ok=True)
                (stage / "training.json").write_text(
                    json.dumps({**TRAINED, "best_val_cider_d": 0.4 + 0.1 * seed})
                )
                record(stage / "training.json")
    return table, runs, folder / "two.json"


def statistics(folder, table, runs, out):
    return compare_table(
        table=table,
        name="two",
        seeds=SEEDS,
        scores_root=folder / "scores",
        statistics_out=out,
        trainings=runs,
    )


def test_what_trainings_recorded_is_read_of_the_last_stage_or_of_all_and_never_compared(tmp_path):
    result = statistics(tmp_path, *compared(tmp_path))
    cells = result.rows[1].cells
    assert {name: cells[name].mean for name in RUN} == pytest.approx(
        {
            "parameters": 54_321_000,
            "validation CIDEr-D": 0.55,
            "steps": 2000,
            "training hours": 10_800,
        }
    )
    assert {name for name in RUN if cells[name].sd is not None} == {
        "validation CIDEr-D",
        "training hours",
    }
    assert all(cells[name].comparison is None for name in RUN)
    alone = statistics(tmp_path, *compared(tmp_path, columns=["METEOR", "CIDEr"]))
    assert result.family == alone.family


def test_every_format_shows_them_with_their_unit_and_without_mark_or_p(tmp_path, monkeypatch):
    monkeypatch.setitem(
        RUN_COLUMNS, "freshness", RunColumn("Fresh", "kg", 2, "training.json", "fresh", scale=0.1)
    )
    printed = (
        make_table()
        .rows[0]
        .model_copy(update={"printed": {"parameters": 59.0}, "as_printed": True})
    )
    table, runs, out = compared(
        tmp_path, rows=[printed, make_table().rows[1]], columns=[*COLUMNS, "freshness"]
    )
    statistics(tmp_path, table, runs, out)
    # As the workflow reads them: a file has its keys in another order than the table its columns.
    texts = table_texts(tmp_path, table, read_json(out, TableResult))
    lines = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in texts["md"].splitlines()
        if line[:1] == "|"
    ]
    assert lines[0][1:] == [
        "METEOR",
        "CIDEr",
        "Params (M)",
        "Val. CIDEr-D",
        "Steps",
        "Training (h)",
        "Fresh (kg)",
    ]
    ours = {tuple(line[3:]) for line in lines if line[0].startswith("ours (n = 2)")}
    assert ours == {("54.3", "55.0\u00a0±\u00a07.1", "2000", "3.00\u00a0±\u00a00.00", "0.70")}
    shown = {line[0]: line[1:] for line in lines}
    assert shown["printed"][2] == "59.0" and shown["ours minus printed"][2] == "-4.7"
    for kind in ("ours minus baseline", "p, images (Holm)", "p, runs (Holm)", "p, both (Holm)"):
        assert shown[kind][2:] == ["--"] * 5
    assert all(
        "Params (M)" in texts[ending] and "54.3" in texts[ending]
        for ending in ("html", "tex", "paper.md")
    )
    assert next(csv.DictReader(io.StringIO(texts["paper.csv"])))["Params (M)"] == "54.3"
    full = [
        line
        for line in csv.DictReader(io.StringIO(texts["csv"]))
        if line["metric"] == "training hours"
    ]
    assert [(line["values"], line["paired_p"], line["mark"]) for line in full] == [
        ("3.0 3.0", "", "")
    ] * 2


def test_changed_files_of_trainings_are_refused(tmp_path):
    table, runs, out = compared(tmp_path)
    file = next(iter(runs.values()))[-1] / "training.json"
    file.write_text(file.read_text().replace("54321000", "54321001"))
    with refused(ChangedFile, "training.json"):
        statistics(tmp_path, table, runs, out)
    file.write_text("{}")
    record(file)
    with refused(DamagedFile, "training.json", "'parameters'"):
        statistics(tmp_path, table, runs, out)


def test_the_plan_names_the_trainings_of_a_table_that_has_such_columns():
    plan = planned(PARAMS, "scenes", ["xlan/t1"], seeds=[1])
    job = statistics_job(plan, "xlan/t1")
    assert job.spec.trainings == {} and job.inputs["records"] == []
    plan.tables["xlan/t1"].columns.append("parameters")
    job = statistics_job(plan, "xlan/t1")
    outcome = job.spec.trainings
    assert outcome
    assert all(stages[-1] == f"results/p/runs/{run}" for run, stages in outcome.items())
    assert {len(stages) for stages in outcome.values()} == {2}
    assert all(stages[0].endswith("/seed-1/xe") for stages in outcome.values())
    files = {f"{path}/training.json" for stages in outcome.values() for path in stages}
    assert set(job.inputs["records"]) == files
