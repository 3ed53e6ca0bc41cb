"""Invented but likely scores of every row of a planned table, for tests of what tables look
like."""

import json
import random

from helpers.score_files import write_run
from recap.plan.run import row_runs
from recap.settings.metrics import score_info, server_names
from recap.settings.tables import RUN_COLUMNS
from recap.statistics.compare import compare_table

USUAL = {
    "BLEU-1": 0.79,
    "BLEU-2": 0.62,
    "BLEU-3": 0.48,
    "BLEU-4": 0.37,
    "METEOR": 0.28,
    "ROUGE-L": 0.57,
}
USUAL |= {"CIDEr": 1.21, "SPICE": 0.21}


def invented_statistics(table, seeds, folder, *, images=60):
    """Return the statistics of a table whose rows lie up
    to 20 % above its baseline, with a spread over runs."""
    columns = [column for column in table.columns if column not in [*server_names(), *RUN_COLUMNS]]
    for number, row in enumerate(table.rows):
        for run in row_runs(row, seeds):
            drawn = random.Random(f"{row.id} {run.path}")
            better = (
                1
                + 0.2 * (row.id != table.baseline) * number / len(table.rows)
                + drawn.gauss(0, 0.012)
            )
            scores = {c: [_score(c, better, i) for i in range(images)] for c in columns}
            write_run(folder / run.path, scores, ids=range(images), not_run=())
    trained = {
        run.path: [_training(folder / run.path)]
        for row in table.rows
        for run in row_runs(row, seeds)
    }
    return compare_table(
        trainings=trained,
        table=table,
        name="invented",
        seeds=seeds,
        scores_root=folder,
        statistics_out=folder / "invented.json",
    )


def _score(column, better, image):
    usual = USUAL.get(column, 0.6) * (1 if score_info(column).scale == 100 else 5)
    return usual * better * (1 + 0.1 * random.Random(f"{column} {image} {better}").uniform(-1, 1))


def _training(folder):
    """Write what a training records, and return its folder."""
    numbers = {"parameters": 54_000_000, "best_val_cider_d": 1.1, "steps": 1000, "seconds": 60}
    (folder / "training.json").write_text(json.dumps(numbers))
    return folder
