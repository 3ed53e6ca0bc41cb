"""The specs of a run's jobs and how they are executed: built here for the workflow and for the command line."""

from __future__ import annotations

from recap.core.errors import ConfigError
from recap.plan.run import Run
from recap.plan.run_plan import RunPlan
from recap.settings.recipes import Execution
from recap.settings.run import CrossEntropyRun, EvaluationSpec, RunSpec, SelfCriticalRun


def run_spec(plan: RunPlan, run: Run) -> RunSpec:
    """Return what decides one training stage of one seed."""
    recipe = plan.recipe(run.recipe)
    common = {
        **{name: getattr(run, name) for name in ("dataset", "subset", "features", "model", "recipe", "seed")},
        "model_settings": plan.get("models", run.model),
        "processes": recipe.processes,
    }
    if run.stage == "xe":
        return CrossEntropyRun(**common, stage="xe", stage_settings=recipe.xe)
    if recipe.scst is None:
        raise ConfigError(f"recipe {run.recipe!r} has no stage scst; take stage xe, or another recipe")
    return SelfCriticalRun(**common, stage="scst", stage_settings=recipe.scst)


def evaluation_spec(plan: RunPlan, recipe: str) -> EvaluationSpec:
    """Return how the captions of a recipe's runs are decoded and scored."""
    return EvaluationSpec(evaluation=plan.recipe(recipe).evaluation)


def execution(plan: RunPlan, recipe: str) -> Execution:
    """Return how the jobs of a recipe's runs are computed: the profile's word counts before the recipe's."""
    return plan.profile.execution.over(plan.recipe(recipe).execution)


def nodes(plan: RunPlan, recipe: str) -> int:
    """Return how many nodes of a cluster a training of a recipe takes."""
    processes = plan.recipe(recipe).processes
    return processes // execution(plan, recipe).per_node(processes)
