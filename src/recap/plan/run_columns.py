"""The trainings that the columns of a table which are no metrics are read from."""

from __future__ import annotations

from recap.plan.run_plan import RunPlan
from recap.settings.columns import RUN_COLUMNS


def trainings(plan: RunPlan, table_id: str) -> dict[str, list[str]]:
    """Return path of a scored run -> paths of its trainings, in their order; nothing where all columns are metrics."""
    if not _files(plan, table_id):
        return {}
    single = [run for run in plan.table_runs(table_id) if not run.members]
    return {run.path: [stage.path for stage in plan.stages(run)] for run in single}


def training_files(plan: RunPlan, table_id: str) -> list[str]:
    """Return the files, below the folder of all runs, that the columns of a table are read from."""
    stages = {path for paths in trainings(plan, table_id).values() for path in paths}
    return [f"{path}/{file}" for path in sorted(stages) for file in _files(plan, table_id)]


def _files(plan: RunPlan, table_id: str) -> list[str]:
    return sorted({RUN_COLUMNS[column].file for column in plan.tables[table_id].columns if column in RUN_COLUMNS})
