"""The rows of a plan's tables, with what was trained of each and the command that trains it alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from recap.core.documents import read_json
from recap.plan.paths import Paths
from recap.plan.run import row_runs
from recap.plan.run_plan import RunPlan


@dataclass(frozen=True)
class TrainedRow:
    """One row."""

    row: str  #: ``TABLE/ROW``
    steps: tuple[int, ...]  #: optimizer steps of its stages, of its first seed
    command: str  #: that trains it alone, at the scale of the paper


def trained_rows(plan: RunPlan) -> list[TrainedRow]:
    """Return the rows of all tables of a plan whose trainings are finished."""
    paths, found = Paths(plan), []
    for table_id, table in plan.tables.items():
        for row in table.rows:
            first = row_runs(row, plan.seeds[table_id])[0].parts()[0]
            folders = [Path(paths.weights(stage)).parent for stage in plan.stages(first)]
            steps = tuple(read_json(folder / "training.json")["steps"] for folder in folders)
            name = f"{table_id}/{row.id}"
            found.append(TrainedRow(name, steps, f"recap train --row {name} --scale {plan.profile.scale}"))
    return found
