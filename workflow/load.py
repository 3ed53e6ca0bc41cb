"""Loads what the rules share before the first job: the plan of a profile, and where its files are."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from workflow.planned import Planned
from workflow.specs import write_executions

from recap.core.errors import RecapError
from recap.models.check import check_models
from recap.plan import used_inputs
from recap.plan.cost import Costs, Parameters
from recap.plan.load import load_plan
from recap.plan.outside import Acquired, acquired, line, requirements
from recap.plan.paths import Paths
from recap.plan.resources import Resources
from recap.plan.run_plan import RunPlan
from recap.plan.step_costs import StepCosts, cost_tables


def load_planned(planned: Planned) -> tuple[RunPlan, Paths, Acquired, Resources]:
    """Return what `load` returns, of what the main process planned."""
    return planned.plan, Paths(planned.plan), planned.acquired, _resources(planned.plan, planned.parameters)


def _resources(plan: RunPlan, parameters: Parameters) -> Resources:
    return Resources(Costs(plan, parameters, StepCosts.read(cost_tables(plan.params))))


def load(config: Mapping[str, Any], files: Sequence[str]) -> tuple[RunPlan, Paths, Acquired, Resources]:
    """Return plan, paths, the missing outside files that rules make, and the limits of jobs.

    Writes the files that jobs read beside specs. If the profile cannot be made, one sentence says why, after a line
    about each missing file.
    """
    try:
        plan = load_plan(config, files)
        paths = Paths(plan)
        parameters = check_models(plan, Path(paths.work) / "checked_models.json")
        needs = _resources(plan, parameters)
        needed = requirements(paths)
        found = acquired(needed, paths)
    except RecapError as error:
        refuse(str(error))
    for each in needed:
        print(f"recap: to be acquired: {line(each)}", file=sys.stderr)
    _make_folders(found, paths)
    write_executions(plan, plan.labels(), Path(paths.work) / "execution")
    used_inputs.note(Path(paths.work), plan.profile.inputs)
    return plan, paths, found, needs


def _make_folders(found: Acquired, paths: Paths) -> None:
    """Make the folders of pictures that a rule fills: no rule makes them as a whole, and Snakemake wants them there."""
    for name in paths.plan.datasets():
        if found.pictures.keys() & {*paths.outside_files("datasets", name)}:
            for folder in paths.images(name):
                Path(folder).mkdir(parents=True, exist_ok=True)


def refuse(sentence: str) -> None:
    """Stop with one sentence, as the `recap` commands do; Snakemake would add where its own code stood."""
    sys.exit(f"recap: {sentence}")
