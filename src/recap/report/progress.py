"""How far a profile is, the hours of its trainings, and where the numbers of a report are from."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import numpy as np

from recap.core.documents import read_json
from recap.core.errors import counted
from recap.core.hashing import commit
from recap.data.corpus import SPLITS, Corpus
from recap.models.check import costs_of
from recap.plan.amounts import UnknownSize
from recap.plan.paths import SCORE_FILES, Paths
from recap.plan.run import Run, series_of
from recap.plan.run_plan import RunPlan

_HOUR = 3600
_PACKAGES = ("recap", "torch", "numpy", "scipy", "pycocoevalcap", "timm", "snakemake")
_OF_A_TRAINING = {"git_commit": "commit", "torch": "torch", "device": "device", "threads": "threads"}


@dataclass(frozen=True)
class Progress:
    """How far a profile is."""

    #: of each training stage, in the order of the tables' rows: label, stage, seeds `finished` and `planned`, hours
    #: taken and `planned_hours`, or None
    series: list[dict[str, Any]]
    records: list[dict[str, Any]]  #: ``training.json`` of each finished training
    planned: int  #: trainings
    scored: int  #: finished evaluations
    to_score: int  #: planned evaluations
    machine: str | None  #: whose measured steps the planned hours are estimated from; None: of no machine all are known
    planned_hours: float | None  #: of all planned trainings

    @property
    def complete(self) -> bool:
        """Whether all trainings and evaluations are finished."""
        return len(self.records) == self.planned and self.scored == self.to_score

    @property
    def sentence(self) -> str:
        """How many trainings and evaluations are finished."""
        trainings, evaluations = counted(self.planned, "training"), counted(self.to_score, "evaluation")
        if self.complete:
            return f"All {trainings} and {evaluations} finished."
        return f"Partial: {len(self.records):,} of {trainings} and {self.scored:,} of {evaluations} finished."


def progress(plan: RunPlan) -> Progress:
    """Return how far a plan is, from the files of its runs."""
    paths, labels = Paths(plan), plan.labels()
    records: dict[Run, dict[str, Any]] = {}
    by_series: dict[str, list[Run]] = {}
    for run in plan.trained():
        by_series.setdefault(series_of(run.path), []).append(run)
        file = Path(paths.results) / "runs" / run.path / "training.json"
        if file.is_file():
            records[run] = read_json(file, dict[str, Any])
    machine, hours = _estimates(plan, plan.trained())
    order = list(dict.fromkeys(labels.values()))
    series = [
        {
            "label": labels[name],
            "stage": runs[0].stage,
            "finished": sum(run in records for run in runs),
            "planned": len(runs),
            "hours": sum(records[run]["seconds"] for run in runs if run in records) / _HOUR,
            "planned_hours": sum(hours[run] for run in runs) if hours else None,
        }
        for name, runs in by_series.items()
    ]
    scored = plan.scored()
    return Progress(
        series=sorted(series, key=lambda each: (order.index(each["label"]), each["stage"] != "xe")),
        records=list(records.values()),
        planned=len(plan.trained()),
        scored=sum(is_scored(paths, run) for run in scored),
        to_score=len(scored),
        machine=machine,
        planned_hours=sum(hours.values()) if hours else None,
    )


def is_scored(paths: Paths, run: Run) -> bool:
    """Return whether the scores of a run are there."""
    return all((Path(paths.results) / "scores" / run.path / name).is_file() for name in SCORE_FILES)


def _estimates(plan: RunPlan, runs: Sequence[Run]) -> tuple[str | None, dict[Run, float]]:
    """Return the machine that was measured last of those that all trainings have hours of, and these.

    There is none where a data set does not say its size.
    """
    costs = costs_of(plan)
    try:
        each = {run: costs.training(run).seconds for run in runs}
    except UnknownSize:
        return None, {}
    shared = set.intersection(*map(set, each.values()))
    machine = next((name for name in next(iter(each.values())) if name in shared), None)
    return machine, {run: seconds[machine] / _HOUR for run, seconds in each.items()} if machine else {}


def origins(plan: RunPlan, done: Progress, signatures: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield name and value of what is behind the numbers: versions, commits, data sets, features, signatures."""
    installed = {each.metadata["Name"]: each.version for each in distributions()}
    versions = ", ".join(f"{name} {installed[name]}" for name in _PACKAGES if name in installed)
    yield "Report made by", f"{versions}, Python {platform.python_version()}, commit {commit()}"
    for key, name in _OF_A_TRAINING.items():
        counts = Counter(str(record[key]) for record in done.records if key in record)
        if counts:
            values = (f"{value} ({counted(count, 'training')})" for value, count in counts.most_common())
            yield f"Trainings: {name}", "; ".join(values)
    for dataset in plan.datasets():
        yield f"Data set {dataset}", _data_set(Path(Paths(plan).of_dataset(dataset, "corpus.parquet")))
    for name, digest in sorted({(str(record["features"]), str(record["feature_hash"])) for record in done.records}):
        yield f"Features {name}", f"hash {digest}"
    yield from (("Signature", text) for text in dict.fromkeys(signatures))


def _data_set(path: Path) -> str:
    """Return the images of each split of a data set, and the hashes of its source and of its splits."""
    if not path.is_file():
        return "not read yet"
    corpus = Corpus.read(path)
    images = {split: len(np.unique(corpus.image_id[corpus.split == split])) for split in SPLITS}
    counts = ", ".join(f"{number:,} {split}" for split, number in images.items() if number)
    return f"{counts} images; source sha256 {corpus.source_sha256}, splits {corpus.split_hash}"
