"""Reads the files of training and evaluation as flat records, independent of any tracking service.

A record is one training stage of one seed. Records have no parent runs: a list of them shows every score, and means
over seeds are a grouping of that list.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, JsonValue

from recap.core.checksums import check
from recap.core.documents import read_json
from recap.core.errors import ConfigError, DamagedFile, RecapError, UnknownName, nearest
from recap.core.hashing import sha256_file, value_hash
from recap.plan.labels import labels, series_of, setting_names
from recap.settings.metrics import METRICS
from recap.settings.params import flat, read_mapping, validate
from recap.settings.tables import STAGE_NAMES, column_info
from recap.statistics.scores import Metrics, read_metrics

# Part of every record's hash: increase it when records are built differently, so that all are published again.
LAYOUT = 4
MAIN_METRIC = "CIDEr"
STAGE_FILES = ("config.yaml", "history.csv", "training.json")
SCORE_FILES = ("metrics.json", "captions.test.json")
EPOCH_NAMES = {"seconds": "epoch_seconds", "step": "optimizer_step"}  # of columns of a history


@dataclass
class Record:
    """One run as a tracking service stores it.

    ``description`` is Markdown, ``artifacts`` are files by their path below the run's artifacts, ``started`` and
    ``ended`` are milliseconds since 1970, ``history`` has each epoch's numbers and ``numbers`` those of the whole run.
    """

    key: str
    name: str
    experiment: str
    tags: dict[str, str]
    started: int
    ended: int
    description: str = ""
    params: dict[str, str] = field(default_factory=dict)
    history: list[tuple[str, float, int]] = field(default_factory=list)
    numbers: dict[str, float] = field(default_factory=dict)
    scores: dict[str, float] = field(default_factory=dict)
    artifacts: dict[str, Path] = field(default_factory=dict)
    hash: str = ""

    def points(self) -> list[tuple[str, float, int]]:
        """Return every finite number as name, value and step (the epoch; 0 for numbers of the whole run).

        The scores are first, beginning with the main metric: MLflow compares runs by the metric that was written first.
        """
        scores = sorted(self.scores.items(), key=lambda score: (score[0] != MAIN_METRIC, score[0]))
        whole = [(name, value, 0) for name, value in (*scores, *self.numbers.items())]
        # MLflow would show an infinite number as 1.8e308.
        return [point for point in (*whole, *self.history) if math.isfinite(point[1])]


@dataclass(frozen=True)
class _Timed:
    """What is read of a run's `training.json` by name."""

    seconds: Annotated[float, Field(ge=0, le=1e9)] = 0


def read_runs(
    *, profile: str, results: Path, tables: Sequence[Mapping[str, Any]], descriptions: Mapping[str, str]
) -> list[Record]:
    """Return the records of all finished runs below ``results``, under the labels of the tables' rows."""
    runs = results / "runs"
    folders = sorted(path.parent for path in runs.glob("*/*/*/*@*/seed-*/*/training.json"))
    paths = [folder.relative_to(runs).as_posix() for folder in folders]
    named = labels({table["table"]: table["rows"] for table in tables}, map(series_of, paths))
    return [_run(profile, path, results, named[series_of(path)], descriptions) for path in paths]


def percent(metric: str, value: float, source: str) -> float:
    """Return a score on the scale of the tables, rounded for display."""
    try:
        return round(column_info(metric).scale * value, 4)
    except KeyError:
        raise UnknownName(f"{source}: no metric gives {metric!r}; {nearest(metric, METRICS.names())}") from None


def _run(profile: str, path: str, results: Path, label: str, descriptions: Mapping[str, str]) -> Record:
    """Return the record of one stage of one seed."""
    setting, seed_folder, stage = path.rsplit("/", 2)
    seed = seed_folder.removeprefix("seed-")
    folder, scores = results / "runs" / path, results / "scores" / path
    files = [folder / name for name in STAGE_FILES]
    files += [scores / name for name in SCORE_FILES if (scores / name).exists()]
    digests = [[file.name, digest(file)] for file in files]
    facts = read_json(folder / "training.json", dict[str, Any])
    seconds = read_json(folder / "training.json", _Timed).seconds
    ended = int((folder / "training.json").stat().st_mtime * 1000)
    names = setting_names(setting)
    head = f"Seed {seed}, {STAGE_NAMES.get(stage, stage)}."
    record = Record(
        key=f"{profile}/{path}",
        name=f"{label} seed {seed} {stage}",
        experiment=names["dataset"],
        tags={"label": label, "stage": stage, "seed": seed, **names, "recap_profile": profile, "level": "run"},
        started=ended - int(seconds * 1000),
        ended=ended,
        description="\n\n".join(filter(None, [descriptions.get(setting), head])),
        params={"label": label, **_config(folder / "config.yaml")},
        history=_history(folder / "history.csv"),
        artifacts={file.name: file for file in files if file.name in ("config.yaml", "captions.test.json")},
    )
    _add_facts(record, facts)
    if (scores / "metrics.json").exists():
        _add_scores(record, read_metrics(scores))
    record.hash = value_hash([LAYOUT, record.name, record.description, record.tags, digests])
    return record


def digest(path: Path) -> str:
    """Return a file's hash; a missing, unreadable or changed file is an error that names it."""
    try:
        check(path)
        return sha256_file(path)
    except OSError as error:
        raise RecapError(f"{path}: cannot be read ({error.strerror}); rerun the step that makes it") from error


def _config(path: Path) -> dict[str, str]:
    """Return the settings of a run as flat params; the file itself, an artifact, has the hashes of its inputs."""
    try:
        config = validate(dict[str, JsonValue], read_mapping(path), str(path))
        settings = validate(dict[str, JsonValue], config.pop("spec", {}), f"{path}: spec")
    except ConfigError as error:
        raise RecapError(f"{error}; delete its folder and train this run again") from error
    leaves = {key: value for key, value in flat(settings).items() if value != {}}
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in leaves.items()}


def _add_facts(record: Record, facts: dict[str, Any]) -> None:
    """Add training.json but for its hashes: numbers become metrics, the rest tags."""
    for name, value in facts.items():
        if name.endswith("_hash"):
            continue
        if isinstance(value, bool | str):
            record.tags.setdefault(name, str(value))
        elif isinstance(value, int | float) and name not in record.tags:
            record.numbers["training_seconds" if name == "seconds" else name] = float(value)


def _add_scores(record: Record, metrics: Metrics) -> None:
    """Add metrics.json, as tables show it; a metric that was not computed becomes a tag with the reason."""
    record.scores = {
        name: percent(name, value, f"{record.key}/metrics.json")
        for name, value in metrics.scores.items()
        if value is not None
    }
    record.tags["signature"] = metrics.signature
    record.tags |= {f"not_run.{name}": reason for name, reason in metrics.not_run.items()}


def _history(path: Path) -> list[tuple[str, float, int]]:
    """Return every number of a history with its epoch as the step; empty cells are left out."""
    points = []
    try:
        with path.open(encoding="utf-8", newline="") as file:
            for line in csv.DictReader(file):
                epoch = int(line.pop("epoch"))
                points += [(EPOCH_NAMES.get(name, name), float(text), epoch) for name, text in line.items() if text]
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise DamagedFile(f"{path}: not a history of training ({error}); delete it and train this run again") from error
    return points
