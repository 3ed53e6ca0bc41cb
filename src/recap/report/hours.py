"""Hours of published trainings: their steps times the seconds of a step,
which one run of `recap measure` timed on one machine for all kinds of models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from recap.core.errors import DataError
from recap.plan.costs import Costs, costs_of
from recap.plan.plan import Plan
from recap.plan.run import Run, series_of
from recap.report.page import HOUR
from recap.report.published import Training
from recap.tables.text import NONE, Block, TextTable, columns_of, number_text, plain, text_line

MEASURED = "measured"  # folder beside the pages, with a file of `recap measure` for a profile
_COLUMNS = (
    "Params (M)",
    "Steps, cross-entropy",
    "Seconds a step",
    "Steps, self-critical",
    "Seconds a step",
    "Hours",
)


def measured_costs(plan: Plan, into: Path) -> Costs | None:
    """Return the costs of a plan by the steps that were measured for its page, if they were."""
    file = into / MEASURED / f"{plan.profile.name}.json"
    return costs_of(plan, file) if file.is_file() else None


def epoch_hours(runs: Iterable[Run], costs: Costs) -> dict[str, float]:
    """Return the hours of an epoch of each training, by its path."""
    hours = {}
    for run in runs:
        steps = costs.steps(run) / costs.stage(run).epochs
        hours[run.path] = steps * _step_seconds(run, costs) / HOUR
    return hours


def _step_seconds(run: Run, costs: Costs) -> float:
    seconds = costs.step_seconds(run)
    if seconds is None:
        name = costs.plan.profile.name
        raise DataError(f"{MEASURED}/{name}.json: has no step of {run.path}; measure again")
    return seconds


def hours_table(
    plan: Plan, runs: Sequence[Run], behind: Mapping[str, Training], costs: Costs
) -> TextTable:
    """Return a line for each model: parameters, steps and seconds of both stages, hours."""
    labels = plan.short_labels(runs)
    of_label: dict[str, list[Run]] = {label: [] for label in labels.values()}  # in rows' order
    for run in runs:
        of_label[labels[series_of(run.path)]].append(run)
    lines = []
    for label, trainings in of_label.items():
        millions = behind[trainings[0].path].training["parameters"] / 1e6
        texts = [number_text(millions, 1)]
        hours = 0.0
        for stage in ("xe", "scst"):
            of_stage = [run for run in trainings if run.stage == stage]
            if not of_stage:
                texts += [NONE, NONE]
                continue
            steps = fmean(behind[run.path].training["steps"] for run in of_stage)
            seconds = _step_seconds(of_stage[0], costs)
            texts += [f"{steps:,.0f}", number_text(seconds, 2)]
            hours += steps * seconds / HOUR
        lines.append(text_line(plain(label), [*texts, number_text(hours, 2)]))
    table = TextTable("Hours", "", columns_of(_COLUMNS), "paper", [Block("", lines)])
    table.notes = [
        f"Hours: steps times the seconds of a step on {costs.machine}, all of them measured in "
        "one run there; without validations. Steps: means over seeds."
    ]
    return table
