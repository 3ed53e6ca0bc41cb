"""What the rule ``select`` reads: the trainings of the rows among which a table chooses on the validation split."""

from __future__ import annotations

from typing import Any

from recap.plan.run import row_runs
from recap.plan.run_plan import RunPlan


def selection_spec(plan: RunPlan, table_id: str) -> dict[str, Any]:
    """Return the choices of a table as the step `select` takes them."""
    table, seeds = plan.tables[table_id], plan.seeds[table_id]
    over = {name for selection in table.selections for name in selection.over}
    rows = [row for row in table.rows if row.id in over]
    return {
        "selections": [selection.model_dump() for selection in table.selections],
        "labels": {row.id: row.label for row in rows},
        "trainings": {row.id: {str(run.seed): plan.weights(run).path for run in row_runs(row, seeds)} for row in rows},
    }


def selection_files(plan: RunPlan, table_id: str) -> list[str]:
    """Return the records of these trainings, below the folder of all runs."""
    paths = {path for by_seed in selection_spec(plan, table_id)["trainings"].values() for path in by_seed.values()}
    return [f"{path}/training.json" for path in sorted(paths)]
