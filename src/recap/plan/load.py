"""The plan of a profile as Snakemake reads it, refused before the first job if it cannot run here."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from recap.core.documents import read_mapping
from recap.core.errors import ConfigError
from recap.core.process import devices
from recap.plan.run_plan import RunPlan
from recap.plan.run_spec import nodes
from recap.settings import Execution
from recap.settings.params import load_profile, refuse_other_scale

PARAMS, ROW = "params_dir", "row"  # keys beside those of the profile
UNUSABLE = re.compile(r"^[-.]|[/@{}\x00-\x1f]")  # in the names of parameter files


def load_plan(config: Mapping[str, Any], files: Sequence[str | Path] = ()) -> RunPlan:
    """Return the plan of a profile, if it can be made here.

    Args:
        config: as `unchecked_plan` takes it.
        files: which of it was read from; Snakemake takes the last of two equal keys of a file without a word.
    """
    for file in files:
        refuse_other_scale(config, read_mapping(Path(file)), str(file))
    plan = unchecked_plan(config)
    _check_names(plan)
    _check_recipes(plan)
    return plan


def unchecked_plan(config: Mapping[str, Any]) -> RunPlan:
    """Return the plan of a profile, which may want other names or GPUs than there can be.

    Args:
        config: the keys of the profile, and two more: `params_dir`, the folder of the parameter files, and `row`
            (``TABLE/ROW``), whose runs alone are planned.
    """
    values = {key: value for key, value in config.items() if key not in (PARAMS, ROW)}
    profile = load_profile(values, f"profile {values.get('name', '(without a name)')}")
    return RunPlan(profile, Path(config.get(PARAMS, "params")), row=config.get(ROW))


def uses_gpus(execution: Execution) -> bool:
    """Return whether jobs use GPUs: where there are none, `auto` means the CPU."""
    return execution.device == "cuda" or (execution.device == "auto" and bool(devices()))


def _check_names(plan: RunPlan) -> None:
    """Refuse what Snakemake cannot have in a path."""
    for section, name in sorted(plan.names()):
        if UNUSABLE.search(name):
            raise ConfigError(
                f"{section}/{name}.yaml: a name cannot begin with - or ., nor hold / @ {{ }}; it becomes part of paths"
            )
    inputs = plan.profile.inputs
    if set("{}") & set(inputs):
        raise ConfigError(f"inputs={inputs}: Snakemake takes braces for wildcards; use a folder without them")


def _check_recipes(plan: RunPlan) -> None:
    """Refuse recipes that no table can be made with, or that want more GPUs than there are."""
    gpus, number = uses_gpus(plan.profile.execution), len(devices())
    for name in sorted({run.recipe for run in plan.scored()}):
        recipe = plan.recipe(name)
        if recipe.evaluation.split != "test":
            raise ConfigError(
                f"recipe {name!r}: evaluation.split is 'val', but tables are made of test scores; say test"
            )
        here = recipe.processes // nodes(plan, name)
        # None here: the jobs are those of a cluster, whose nodes have them.
        if gpus and number and here > number:
            raise ConfigError(
                f"recipe {name!r}: {here} processes want a GPU each, but there are {number}; set `processes` lower"
            )
