"""Stages of COCO-sized work after the trainings,
on invented scores and records in the files that trainings leave.

Statistics and tables are over 142 runs, with a score for each test image of the size; MLflow and
DVC have 872 runs at COCO's size and as many fewer at the others.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.coco_captions import split_sizes
from benchmarks.coco_stages import Part

if TYPE_CHECKING:
    from recap.plan.run import Run
    from recap.settings import Table

COMPARED, TRAININGS, SEEDS = 142, 872, [1, 2]
USUAL = {"BLEU-4": 0.37, "METEOR": 0.28, "ROUGE-L": 0.57, "CIDEr": 1.21}
EPOCHS = 30
HISTORY = "epoch,step,loss,val_cider_d,seconds\n"


def statistics(folder: Path, part: Part) -> int:
    """A table of 142 runs: intervals, tests over images and over runs, correction."""
    from recap.statistics.compare import compare_table

    root, images = folder / "compared", split_sizes(int(folder.name))["test"]
    table = _table(COMPARED // len(SEEDS))
    for number, run in enumerate(_runs(table)):
        _write_scores(root / "scores" / run.path, number, images)
    with part():
        compare_table(
            table=table,
            name="all",
            seeds=SEEDS,
            scores_root=root / "scores",
            statistics_out=root / "all.json",
        )
    return images


def tables(folder: Path, part: Part) -> int:
    """The same table as LaTeX, CSV, Markdown and HTML."""
    from recap.core.documents import read_json
    from recap.statistics.results import TableResult
    from recap.tables.formats import write_table

    root = folder / "compared"
    found = read_json(root / "all.json", TableResult)
    with part():
        write_table(
            name="all", table=_table(COMPARED // len(SEEDS)), statistics=found, out=root / "tables"
        )
    return COMPARED


def mlflow(folder: Path, part: Part) -> int:
    """Runs into an empty MLflow store."""
    from recap.share.tracking_store import publish

    results, runs = _trained(folder)
    shutil.rmtree(folder / "mlflow", ignore_errors=True)
    (folder / "mlflow").mkdir()
    with part():
        publish(
            profile="coco",
            results=results,
            reports=folder / "reports",
            store=folder / "mlflow" / "mlflow.db",
            out=folder / "mlflow" / "published.json",
        )
    return runs


def mlflow_again(folder: Path, part: Part) -> int:
    """The same runs, which MLflow has by now."""
    from recap.share.tracking_store import publish

    with part():
        publish(
            profile="coco",
            results=folder / "coco",
            reports=folder / "reports",
            store=folder / "mlflow" / "mlflow.db",
            out=folder / "mlflow" / "published.json",
        )
    return _count(folder)


def dvc_status(folder: Path, part: Part) -> int:
    """`dvc status` of the results of all runs, which DVC has in its cache."""
    root = folder / "dvc"
    shutil.rmtree(root, ignore_errors=True)
    results, runs = _trained(folder)
    shutil.copytree(results, root / "results")
    program = [sys.executable, "-m", "dvc"]
    for command in (
        ["git", "init", "-q"],
        [*program, "init", "-q"],
        [*program, "add", "-q", "results"],
    ):
        subprocess.run(command, cwd=root, check=True)
    with part():
        done = subprocess.run(
            [*program, "status"], cwd=root, check=True, capture_output=True, text=True
        )
    assert "up to date" in done.stdout, done.stdout
    return runs


def _count(folder: Path) -> int:
    """Return how many trainings belong to a size, in whole rows."""
    rows = max(4, TRAININGS * int(folder.name) // split_sizes(113_287)["train"] // len(SEEDS))
    return rows * len(SEEDS)


def _trained(folder: Path) -> tuple[Path, int]:
    """Write records and scores of trainings, and the statistics of one table.

    Return their folder and number.
    """
    from recap.statistics.compare import compare_table

    results, runs = folder / "coco", _count(folder)
    shutil.rmtree(results, ignore_errors=True)
    table = _table(runs // len(SEEDS))
    for number, run in enumerate(_runs(table)):
        _write_training(results / "runs" / run.path, run)
        _write_scores(results / "scores" / run.path, number, 100)
    compare_table(
        table=table,
        name="all",
        seeds=SEEDS,
        scores_root=results / "scores",
        statistics_out=results / "statistics" / "all.json",
    )
    return results, runs


def _table(rows: int) -> Table:
    from recap.settings import Table

    common = {"dataset": "coco", "features": "grid", "recipe": "xe"}
    return Table(
        title="Invented",
        scale="Invented scores",
        printed_on="coco",
        columns=list(USUAL),
        baseline="row_0",
        rows=[
            {**common, "id": f"row_{n}", "label": f"Row {n}", "model": (f"model_{n}")}
            for n in range(rows)
        ],
    )


def _runs(table: Table) -> Iterable[Run]:
    from recap.plan.run import row_runs

    return (run for row in table.rows for run in row_runs(row, SEEDS))


def _write_scores(folder: Path, number: int, images: int) -> None:
    """Write what an evaluation leaves."""
    from helpers.score_files import write_run

    rng = np.random.default_rng(number)
    better = 1 + 0.002 * (number // 2) + 0.01 * rng.standard_normal()
    scores = {name: usual * better * rng.uniform(0.5, 1.5, images) for name, usual in USUAL.items()}
    write_run(folder, scores, ids=range(images), not_run=())


def _write_training(folder: Path, run: Run) -> None:
    """Write what a training leaves, but for the weights."""
    folder.mkdir(parents=True, exist_ok=True)
    numbers = {
        "parameters": 54_000_000,
        "best_val_cider_d": 1.1,
        "steps": 1000,
        "seconds": 60,
        "epochs": EPOCHS,
    }
    (folder / "training.json").write_text(
        json.dumps({**numbers, "seed": run.seed, "git_commit": "0" * 40})
    )
    settings = "".join(f"    key_{number}: {number}\n" for number in range(60))
    (folder / "config.yaml").write_text(f"stage: xe\nspec:\n  model_settings:\n{settings}")
    lines = "".join(
        f"{epoch},{1000 * epoch},{3 / epoch:.6f},{0.02 * epoch:.6f},60\n"
        for epoch in range(1, EPOCHS + 1)
    )
    (folder / "history.csv").write_text(HISTORY + lines)


STAGES: dict[str, Callable[[Path, Part], int]] = {
    each.__name__: each for each in (statistics, tables, mlflow, mlflow_again, dvc_status)
}
