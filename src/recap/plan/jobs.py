"""What decides whether a job of the workflow runs again beside its input files: its settings and its source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from recap.core.documents import read_mapping
from recap.plan.identities import CAPTIONING, EVALUATION, job_code
from recap.plan.outside_rows import ScoredFile
from recap.plan.run_plan import RunPlan
from recap.plan.source import code_digest
from recap.settings.tables import RUN_COLUMNS


def corpus_spec(plan: RunPlan, dataset: str) -> dict[str, Any]:
    """Return a data set's settings without the vocabulary's, which are those of another job."""
    return {key: value for key, value in plan.spec("datasets", dataset).items() if key != "vocabulary"}


def corpus_code(plan: RunPlan, dataset: str) -> str:
    """Return the digest of the job that builds a corpus: its own reader counts, those of other kinds do not."""
    return code_digest("recap.data.corpus:build_corpus", plan.get("datasets", dataset).reader)


def extractor_spec(plan: RunPlan, features: str) -> dict[str, Any]:
    """Return what decides the values of a feature store; batch and shard sizes do not."""
    settings = plan.get("features", features)
    spec: dict[str, Any] = settings.model_dump(mode="json", exclude=settings.EXECUTION)
    return spec


def extractor_code(plan: RunPlan, features: str) -> str:
    """Return the digest of one extractor's source; a changed extractor redoes its own features alone."""
    return code_digest(*plan.get("features", features).targets())


def evaluation_code(plan: RunPlan, model: str, recipe: str) -> str:
    """Return the digest of decoding with a model and of the metrics that its recipe asks for."""
    return job_code(EVALUATION, plan.get("models", model).kind, metrics=plan.recipe(recipe).evaluation.metrics)


def released_code(scored: ScoredFile, released: Path) -> str:
    """Return the digest of decoding with released weights, whose folder says their kind, and of a row's metrics."""
    settings = read_mapping(released / "config.yaml")["spec"]["model_settings"]
    return job_code(EVALUATION, settings["kind"], metrics=scored.metrics)


def captioning_code(plan: RunPlan, model: str) -> str:
    """Return the digest of decoding with a model, without a metric."""
    return job_code(CAPTIONING, plan.get("models", model).kind)


def table_spec(plan: RunPlan, table_id: str) -> dict[str, Any]:
    """Return a table with the seeds of its runs and the recipes that these name."""
    recipes = sorted({run.recipe for run in plan.table_runs(table_id)})
    return {
        "table": plan.tables[table_id].model_dump(mode="json"),
        "seeds": plan.seeds[table_id],
        "recipes": {recipe: plan.spec("recipes", recipe) for recipe in recipes},
    }


def trainings(plan: RunPlan, table_id: str) -> dict[str, list[str]]:
    """Return path of a scored run -> paths of its trainings, in their order; nothing where all columns are metrics."""
    if not _column_files(plan, table_id):
        return {}
    single = [run for run in plan.table_runs(table_id) if not run.members]
    return {run.path: [stage.path for stage in plan.stages(run)] for run in single}


def training_files(plan: RunPlan, table_id: str) -> list[str]:
    """Return the files, below the folder of all runs, that the columns of a table are read from."""
    stages = {path for paths in trainings(plan, table_id).values() for path in paths}
    return [f"{path}/{file}" for path in sorted(stages) for file in _column_files(plan, table_id)]


def _column_files(plan: RunPlan, table_id: str) -> list[str]:
    return sorted({RUN_COLUMNS[column].file for column in plan.tables[table_id].columns if column in RUN_COLUMNS})
