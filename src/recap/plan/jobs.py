"""All jobs of a plan, and the questions that are filters over them."""

from __future__ import annotations

from recap.plan.data_jobs import data_jobs
from recap.plan.feature_jobs import feature_jobs
from recap.plan.job import Jobs, outputs_of
from recap.plan.plan import Plan
from recap.plan.run_jobs import evaluation_jobs, training_jobs
from recap.plan.studies import study_jobs
from recap.plan.table_jobs import figure_jobs, page_jobs, table_jobs

EVALUATIONS = ("evaluate", "evaluate_ensemble", "score_file", "score_released", "server_captions")
_FEATURES = (
    "pretrain",
    "used_images",
    "extractor",
    "features",
    "detector_features",
    "merge_features",
    "language_model",
)


def plan_jobs(plan: Plan) -> Jobs:
    """Return everything that a plan makes."""
    jobs = [
        *data_jobs(plan),
        *feature_jobs(plan),
        *training_jobs(plan),
        *figure_jobs(plan),
        *evaluation_jobs(plan),
        *table_jobs(plan),
        *study_jobs(plan),
    ]
    made = Jobs(jobs, plan.files)
    return Jobs([*made, *page_jobs(plan, made)], plan.files)


def data_files(jobs: Jobs) -> list[str]:
    """Return corpora with what their readers write, cards, vocabularies and subsets."""
    data = [*jobs.with_prefix("corpus"), *jobs.of("vocabulary", "card", "subset")]
    return sorted(set(outputs_of(data)))


def feature_files(jobs: Jobs) -> list[str]:
    """Return the stores of all runs, those that they are made from,
    their notes, and weights that are trained first."""
    # The parts of a store that several jobs make are temporary.
    made = [job for job in jobs.of(*_FEATURES) if "part" not in job.outputs]
    return sorted(set(outputs_of(made)))


def kept_files(jobs: Jobs) -> list[str]:
    """Return all files that DVC keeps by name, so that one that got lost is missed,
    also under a finished report."""
    others = [job for job in jobs if job.rule != "publish" and "part" not in job.outputs]
    return sorted(set(outputs_of(others)))
