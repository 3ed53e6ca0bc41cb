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
from recap.plan.paths import Paths
from recap.plan.run import Run, series_of
from recap.plan.run_plan import RunPlan
from recap.tables.text import NONE, Block, Cell, Line, TextTable, plain

_HOUR = 3600
_COLUMNS = ("Stage", "Finished", "Planned", "Hours so far", "Hours planned")
_PACKAGES = ("recap", "torch", "numpy", "scipy", "pycocoevalcap", "timm", "snakemake")
_OF_A_TRAINING = {"git_commit": "commit", "torch": "torch", "device": "device", "threads": "threads"}


@dataclass(frozen=True)
class Progress:
    """How far a profile is."""

    cost: TextTable  #: a line for each training stage: seeds finished and planned, hours taken and estimated
    records: list[dict[str, Any]]  #: ``training.json`` of each finished training
    planned: int  #: trainings
    scored: int  #: finished evaluations
    to_score: int  #: planned evaluations

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
    took = sum(record["seconds"] for record in records.values()) / _HOUR
    estimate = ". There is no estimate of all planned ones: recap plan says why."
    if hours:
        planned = f"{sum(hours.values()):,.2f} hours, from steps measured on {machine}"
        estimate = f"; all planned ones are estimated at {planned}."
    cost = TextTable("Cost so far", "", [(name, name) for name in _COLUMNS], "paper")
    cost.legend = [f"The finished trainings took {took:,.2f} hours{estimate}"]
    order, lines = list(dict.fromkeys(labels.values())), list[Line]()
    for name in sorted(by_series, key=lambda name: (order.index(labels[name]), by_series[name][0].stage != "xe")):
        runs = by_series[name]
        done = [records[run]["seconds"] / _HOUR for run in runs if run in records]
        planned = f"{sum(hours[run] for run in runs):.2f}" if hours else NONE
        texts = [runs[0].stage, str(len(done)), str(len(runs)), f"{sum(done):.2f}", planned]
        lines.append(Line(plain(labels[name]), list(map(Cell, texts))))
    cost.blocks = [Block("", lines)]
    scored = plan.scored()
    evaluated = sum(paths.is_scored(run) for run in scored)
    return Progress(cost, list(records.values()), len(plan.trained()), evaluated, len(scored))


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
