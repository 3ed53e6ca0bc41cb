"""One training of a table's row, apart from its profile: `recap train --row`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from recap.core.documents import parse
from recap.core.errors import ConfigError, UnknownName, nearest
from recap.plan.job import Job, Jobs
from recap.plan.jobs import plan_jobs
from recap.plan.plan import Plan
from recap.plan.profiles import ROW, SINGLE, load_plan
from recap.plan.run import Run
from recap.plan.run_jobs import language_model_job, pretrained, training_job
from recap.plan.specs import execution, run_spec
from recap.settings.params import merged, validate
from recap.settings.recipes import EvaluationSpec, ExecutionFile, RunSpec


@dataclass(frozen=True)
class SingleRun:
    """A training stage of a row, perhaps with other settings, and how captions are decoded."""

    plan: Plan
    run: Run
    spec: RunSpec
    execution: ExecutionFile
    evaluation: EvaluationSpec

    @property
    def folder(self) -> Path:
        """Where its state and its results are: never among those of a profile."""
        return (
            Path("work")
            / SINGLE
            / "runs"
            / str(self.plan.alone)
            / f"seed-{self.run.seed}"
            / self.run.stage
        )


def single_run(config: dict[str, Any], *, stage: str | None, changes: Sequence[str]) -> SingleRun:
    """Return one stage of the row of `row_config`,
    with changes (``xe.epochs=1``) of xe, scst, model and others."""
    plan = load_plan(config)
    first = plan.row(config[ROW]).runs[0].parts()[0]
    run = (
        plan.first_stage(first) if (stage or first.stage) == "xe" else replace(first, stage="scst")
    )
    spec = run_spec(plan, run).model_dump(mode="json")
    parts: dict[str, dict[str, Any]] = {
        run.stage: spec["stage_settings"],
        "model": spec["model_settings"],
        "evaluation": plan.settings.recipe(run.recipe).evaluation.model_dump(mode="json"),
        "execution": execution(plan, run.recipe).model_dump(mode="json"),
    }
    for change in changes:
        part, values = _parsed(change, list(parts))
        parts[part] = merged(parts[part], values)
    spec |= {"stage_settings": parts[run.stage], "model_settings": parts["model"]}
    return SingleRun(
        plan,
        run,
        validate(RunSpec, spec, "--set"),
        validate(ExecutionFile, parts["execution"], "--set"),
        validate(EvaluationSpec, {"evaluation": parts["evaluation"]}, "--set"),
    )


def _parsed(change: str, parts: list[str]) -> tuple[str, dict[str, Any]]:
    """Return what ``xe.schedule.learning_rate=1e-4`` changes: ``xe`` and what is laid over it."""
    key, equals, text = change.partition("=")
    part, *names = key.split(".")
    if not (equals and names and all(names)):
        raise ConfigError(f"--set {change}: write KEY=VALUE with KEY as xe.epochs or model.d_model")
    if part in ("xe", "scst") and part not in parts:
        raise ConfigError(
            f"--set {change}: this run is of stage {parts[0]}; add --stage {part} to train that one"
        )
    if part not in parts:
        raise UnknownName(
            f"--set {change}: there is nothing called {part!r} in this run; {nearest(part, parts)}"
        )
    value = parse(text, f"--set {key}")
    for name in reversed(names):
        value = {name: value}
    return part, value


def single_job(chosen: SingleRun) -> Job:
    """Return the training as a job."""
    return training_job(chosen.plan, chosen.run, chosen.spec)


def single_jobs(chosen: SingleRun) -> Jobs:
    """Return the training with all jobs that may have to be run before it."""
    plan = chosen.plan
    planned = plan_jobs(plan)
    if chosen.run.stage != "xe":
        return planned
    # The model may begin with other weights than its row's.
    jobs = [job for job in planned if job.rule not in ("train_xe", "language_model")]
    out = {"model": str(chosen.folder / "run" / "model.safetensors")}
    jobs.append(replace(single_job(chosen), outputs=out))
    weights = pretrained(plan, chosen.run.dataset, chosen.spec.model_settings)
    if weights.language_model:
        jobs.append(language_model_job(plan, chosen.run.dataset, weights.language_model))
    return Jobs(jobs, plan.files)
