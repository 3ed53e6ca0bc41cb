"""One training by hand: from the row of a table, and what is to be different, to the spec of its run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from recap.core.errors import ConfigError, nearest
from recap.core.files.yaml_files import parse
from recap.plan.run import Run, row_runs
from recap.plan.run_plan import RunPlan
from recap.plan.run_spec import evaluation_spec, execution, run_spec
from recap.settings import EvaluationSpec, Execution, Profile, RunSpec
from recap.settings.params import merged, validate

NAME = "by_hand"  # of the profile of such a training, and of its folder below work/


@dataclass(frozen=True)
class ByHand:
    """A training, where the settings of its data come from, and how its captions are decoded."""

    row: str
    plan: RunPlan
    run: Run
    spec: RunSpec
    execution: Execution
    evaluation: EvaluationSpec


def plan_of_row(params: Path, row: str, scale: str | None, seed: int | None) -> RunPlan:
    """Return the plan of the table of a row (``TABLE/ROW``), for one seed; None: for those of the table or scale.

    Raises:
        ConfigError: there is no such table or scale, or something in it is refused.
    """
    table, slash, _ = row.rpartition("/")
    if not slash:
        raise ConfigError(f"--row {row}: name table and row: TABLE/ROW (`recap params list tables` lists the tables)")
    seeds = None if seed is None else [seed]
    return RunPlan(
        validate(Profile, {"name": NAME, "tables": [table], "seeds": seeds, "scale": scale}, "--row"), params
    )


def by_hand(
    params: Path, row: str, *, scale: str | None, seed: int, stage: str | None, changes: Sequence[str]
) -> ByHand:
    """Return the training of a table's row.

    Args:
        params: the folder of parameter files.
        row: ``TABLE/ROW``.
        scale: of the table; None: the table as it is.
        seed: of the run.
        stage: xe or scst; None: the row's.
        changes: ``KEY=VALUE`` each; the first part of KEY is xe, scst, model, evaluation or execution.

    Raises:
        ConfigError: a name, a key or a value is refused.
    """
    plan = plan_of_row(params, row, scale, seed)
    first = row_runs(plan.row(row)[1], [seed])[0].parts()[0]
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
    return ByHand(
        row,
        plan,
        run,
        validate(RunSpec, spec, "--set"),
        validate(Execution, parts["execution"], "--set"),
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
        raise ConfigError(f"--set {change}: there is nothing called {part!r} in this run; {nearest(part, parts)}")
    value = parse(text, f"--set {key}")
    for name in reversed(names):
        value = {name: value}
    return part, value
