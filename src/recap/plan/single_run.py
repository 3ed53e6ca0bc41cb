"""One run outside of the workflow: from the row of a table, and what is to be different, to its settings."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from recap.core.documents import parse, read_mapping
from recap.core.errors import ConfigError, UnknownName, nearest
from recap.plan.load import PARAMS, ROW, load_plan
from recap.plan.run import Run, row_runs
from recap.plan.run_plan import RunPlan
from recap.plan.run_spec import evaluation_spec, execution, run_spec
from recap.settings import EvaluationSpec, ExecutionFile, RunSpec
from recap.settings.params import merged, validate

NAME = "single"  # of the profile of such a run, where none is given, and of its folder below work/


@dataclass(frozen=True)
class SingleRun:
    """A training stage of a row, which may have other settings than the row, and how its captions are decoded."""

    row: str
    plan: RunPlan
    run: Run
    spec: RunSpec
    execution: ExecutionFile
    evaluation: EvaluationSpec

    @property
    def folder(self) -> Path:
        """Where its state and its results are: never among those of a profile."""
        return Path("work") / NAME / "runs" / self.row / f"seed-{self.run.seed}" / self.run.stage


def row_config(
    params: Path,
    row: str,
    *,
    profile: Path | None = None,
    scale: str | None = None,
    seed: int | None = None,
    inputs: Path | None = None,
) -> dict[str, Any]:
    """Return the config of a workflow that plans one row (``TABLE/ROW``), as `load_plan` and Snakemake take it.

    Args:
        params: the folder of parameter files.
        row: ``TABLE/ROW``.
        profile: a profile's file, whose folders and other settings are used.
        scale, seed, inputs: in place of those of the profile; without any, the table as it is, with all its seeds.
    """
    table, slash, _ = row.rpartition("/")
    if not slash:
        raise ConfigError(f"--row {row}: name table and row: TABLE/ROW (`recap params list tables` lists the tables)")
    given = {
        "scale": scale,
        "seeds": None if seed is None else [seed],
        "inputs": None if inputs is None else str(inputs),
    }
    name = re.sub("[^a-z0-9_]", "_", f"{NAME}_{scale}") if scale else NAME
    config = {"name": name, "scale": scale} if profile is None else read_mapping(profile)
    if scale is not None and "scales" not in config and config.get("scale") != scale:
        own = f"at scale {config['scale']}" if config.get("scale") else "without a scale"
        raise ConfigError(f"--scale {scale}: {profile} is {own}; leave --scale or --profile out")
    config |= {key: value for key, value in given.items() if value is not None}
    return config | {"tables": [table], "figures": [], "studies": [], PARAMS: str(params), ROW: row}


def single_run(config: dict[str, Any], *, stage: str | None, changes: Sequence[str]) -> SingleRun:
    """Return one training stage of a table's row.

    Args:
        config: of `row_config`, with one seed.
        stage: xe or scst; None: the row's.
        changes: ``KEY=VALUE`` each; the first part of KEY is xe, scst, model, evaluation or execution.
    """
    plan = load_plan(config)
    first = row_runs(plan.row(config[ROW])[1], config["seeds"])[0].parts()[0]
    run = plan.first_stage(first) if (stage or first.stage) == "xe" else replace(first, stage="scst")
    spec = run_spec(plan, run).model_dump(mode="json")
    parts: dict[str, dict[str, Any]] = {
        run.stage: spec["stage_settings"],
        "model": spec["model_settings"],
        "evaluation": evaluation_spec(plan, run.recipe).evaluation.model_dump(mode="json"),
        "execution": execution(plan, run.recipe).model_dump(mode="json"),
    }
    for change in changes:
        part, values = _parsed(change, list(parts))
        parts[part] = merged(parts[part], values)
    spec |= {"stage_settings": parts[run.stage], "model_settings": parts["model"]}
    return SingleRun(
        config[ROW],
        plan,
        run,
        validate(RunSpec, spec, "--set"),
        validate(ExecutionFile, parts["execution"], "--set"),
        validate(EvaluationSpec, {"evaluation": parts["evaluation"]}, "--set"),
    )


def _parsed(change: str, parts: list[str]) -> tuple[str, dict[str, Any]]:
    """Return what ``xe.schedule.learning_rate=1e-4`` changes: ``xe``, and the mapping laid over it."""
    key, equals, text = change.partition("=")
    part, *names = key.split(".")
    if not (equals and names and all(names)):
        raise ConfigError(f"--set {change}: write KEY=VALUE with KEY as xe.epochs or model.d_model")
    if part in ("xe", "scst") and part not in parts:
        raise ConfigError(f"--set {change}: this run is of stage {parts[0]}; add --stage {part} to train that one")
    if part not in parts:
        raise UnknownName(f"--set {change}: there is nothing called {part!r} in this run; {nearest(part, parts)}")
    value = parse(text, f"--set {key}")
    for name in reversed(names):
        value = {name: value}
    return part, value
