"""How far a profile is: which trainings and evaluations are finished, and the hours that they took."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recap.core.documents import read_json
from recap.core.errors import counted
from recap.models.check import costs_of
from recap.plan.amounts import UnknownSize
from recap.plan.paths import SCORE_FILES, Paths
from recap.plan.run import Run, series_of
from recap.plan.run_plan import RunPlan

_HOUR = 3600


@dataclass(frozen=True)
class Series:
    """All seeds of one training stage: what tables call it, runs finished and planned, hours taken and estimated."""

    label: str
    stage: str
    finished: int
    planned: int
    hours: float
    planned_hours: float | None


@dataclass(frozen=True)
class Progress:
    """How far a profile is."""

    series: list[Series]  #: of trainings, in the order of the tables' rows
    records: list[dict[str, Any]]  #: ``training.json`` of each finished training
    scored: int  #: finished evaluations
    to_score: int  #: planned evaluations
    machine: str | None  #: whose measured steps the planned hours are estimated from; None: of no machine all are known

    @property
    def finished(self) -> int:
        """Number of finished trainings."""
        return sum(each.finished for each in self.series)

    @property
    def planned(self) -> int:
        """Number of planned trainings."""
        return sum(each.planned for each in self.series)

    @property
    def hours(self) -> float:
        """Hours of the finished trainings."""
        return sum(each.hours for each in self.series)

    @property
    def planned_hours(self) -> float | None:
        """Estimated hours of all planned trainings, None where there is no estimate."""
        known = [each.planned_hours for each in self.series if each.planned_hours is not None]
        return sum(known) if len(known) == len(self.series) else None

    @property
    def sentence(self) -> str:
        """How many trainings and evaluations are finished."""
        if self.finished == self.planned and self.scored == self.to_score:
            return f"All {counted(self.planned, 'training')} and {counted(self.to_score, 'evaluation')} finished."
        return (
            f"Partial: {self.finished:,} of {counted(self.planned, 'training')} and {self.scored:,} of "
            f"{counted(self.to_score, 'evaluation')} finished. What is missing is marked as not run yet."
        )


def progress(plan: RunPlan) -> Progress:
    """Return how far a plan is, from the files of its runs."""
    paths, labels = Paths(plan), plan.labels()
    records = {run: _record(paths, run) for run in plan.trained()}
    machine, seconds = _estimates(plan, list(records))
    by_series: dict[str, list[Run]] = {}
    for run in records:
        by_series.setdefault(series_of(run.path), []).append(run)
    order = list(dict.fromkeys(labels.values()))
    series = [
        Series(
            label=labels[name],
            stage=runs[0].stage,
            finished=sum(records[run] is not None for run in runs),
            planned=len(runs),
            hours=sum(record["seconds"] for run in runs if (record := records[run])) / _HOUR,
            planned_hours=sum(seconds[run] for run in runs) / _HOUR if seconds else None,
        )
        for name, runs in by_series.items()
    ]
    scored = plan.scored()
    return Progress(
        series=sorted(series, key=lambda each: (order.index(each.label), each.stage != "xe")),
        records=[record for record in records.values() if record],
        scored=sum(is_scored(paths, run) for run in scored),
        to_score=len(scored),
        machine=machine,
    )


def is_scored(paths: Paths, run: Run) -> bool:
    """Return whether the scores of a run are there."""
    return all((Path(paths.results) / "scores" / run.path / name).is_file() for name in SCORE_FILES)


def _record(paths: Paths, run: Run) -> dict[str, Any] | None:
    file = Path(paths.results) / "runs" / run.path / "training.json"
    return read_json(file, dict[str, Any]) if file.is_file() else None


def _estimates(plan: RunPlan, runs: list[Run]) -> tuple[str | None, dict[Run, float]]:
    """Return the machine that was measured last of those that all trainings have seconds of, and these.

    There is none where a data set does not say its size.
    """
    costs = costs_of(plan)
    try:
        each = {run: costs.training(run).seconds for run in runs}
    except UnknownSize:
        return None, {}
    shared = set.intersection(*map(set, each.values()))
    machine = next((name for name in next(iter(each.values())) if name in shared), None)
    return machine, {run: seconds[machine] for run, seconds in each.items()} if machine else {}
