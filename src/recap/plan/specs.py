"""What decides the result of a job beside its files and its source: its spec."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from recap.core.errors import ConfigError
from recap.plan.plan import Plan
from recap.plan.run import Run, series_of
from recap.settings.datasets import ConceptualDataset, Draw, WebDraws
from recap.settings.recipes import (
    CrossEntropyRun,
    EvaluationSpec,
    Execution,
    RunSpec,
    SelfCriticalRun,
)
from recap.settings.specs import ComparedTable, Curve, CurvesSpec, SelectedRows


def run_spec(plan: Plan, run: Run) -> RunSpec:
    """Return what decides one training stage of one seed."""
    recipe = plan.settings.recipe(run.recipe)
    common: dict[str, Any] = {**run.names, "seed": run.seed, "processes": recipe.processes}
    common["model_settings"] = plan.settings.model(run.model)
    if run.stage == "xe":
        return CrossEntropyRun(**common, stage="xe", stage_settings=recipe.xe)
    if recipe.scst is None:
        raise ConfigError(
            f"recipe {run.recipe!r} has no stage scst; take stage xe, or another recipe"
        )
    return SelfCriticalRun(**common, stage="scst", stage_settings=recipe.scst)


def execution(plan: Plan, recipe: str) -> Execution:
    """Return how a recipe's runs are computed: the profile's word goes before the recipe's."""
    return plan.profile.execution.over(plan.settings.recipe(recipe).execution)


def evaluation_spec(plan: Plan, recipe: str) -> EvaluationSpec:
    """Return how the captions of a recipe's runs are decoded and scored."""
    return EvaluationSpec(evaluation=plan.settings.recipe(recipe).evaluation)


def table_spec(plan: Plan, table_id: str, **folders: dict[str, Any]) -> ComparedTable:
    """Return a table with the seeds of its runs, and perhaps folders of these."""
    return ComparedTable(table=plan.tables[table_id], seeds=plan.seeds[table_id], **folders)


def curves_spec(plan: Plan, runs: Sequence[Run]) -> CurvesSpec:
    """Return trainings with their labels for a reader, in the order of the tables' rows."""
    labels = plan.short_labels(runs)
    order = list(dict.fromkeys(labels.values()))
    curves = []
    for run in sorted(runs, key=lambda run: order.index(labels[series_of(run.path)])):
        curves.append(
            Curve(
                label=labels[series_of(run.path)],
                seed=run.seed,
                stage=run.stage,
                path=run.path,
                after=plan.first_stage(run).path if run.stage == "scst" else None,
            )
        )
    return CurvesSpec(runs=curves)


def selection_spec(plan: Plan, table_id: str) -> SelectedRows:
    """Return the rows among which a table chooses on the validation split, with their trainings."""
    table = plan.tables[table_id]
    over = set(chain.from_iterable(selection.over for selection in table.selections))
    labels = {}
    behind = {}
    for each in plan.table_rows(table_id):
        if each.row.id in over:
            labels[each.row.id] = each.row.label
            behind[each.row.id] = {run.seed: plan.training_of(run).path for run in each.runs}
    return SelectedRows(selections=table.selections, labels=labels, trainings=behind)


def web_draws(plan: Plan, survivors: str) -> dict[str, WebDraws]:
    """Return by data set what runs draw from a list of fetched web pictures.

    Nothing where all are fetched.
    """
    draws_of = {}
    for name in plan.datasets:
        settings = plan.settings.dataset(name)
        if not isinstance(settings, ConceptualDataset) or settings.survival is None:
            continue
        # the first list is of training pictures
        if plan.files.outside(next(iter(settings.web_pictures()))) != survivors:
            continue
        draws = []
        for subset, seed in sorted(
            {(run.subset, run.seed) for run in plan.trained if run.dataset == name}
        ):
            draws.append(Draw(**dict(plan.settings.subset(subset)), seed=seed))
        draws_of[name] = WebDraws(
            held_out=settings.val_pairs,
            seed=settings.seed,
            survival=settings.survival,
            draws=draws,
        )
    return draws_of
