"""Finished runs as flat records, read from their files, independent of any tracking service.

A record is one training stage of one seed. Records have no parents: a list of them shows every score, and means over
seeds are a grouping of that list.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from recap.core.checksums import check
from recap.core.documents import HINT, read_json
from recap.core.errors import DamagedFile, RecapError, UnknownName
from recap.core.files import reading
from recap.core.hashing import sha256_file, value_hash
from recap.plan.records import read_tables
from recap.plan.run import labels, row_setting, series_of, setting_names
from recap.settings.params import flat, read_mapping, validate
from recap.settings.tables import STAGE_NAMES, column_info
from recap.statistics.scores import read_metrics

MAIN_METRIC = "CIDEr"
_EPOCH_NAMES = {"seconds": "epoch_seconds", "step": "optimizer_step"}  # of columns of a history
_SCALE = {"val_cider_d": 100, "best_val_cider_d": 100}  # of fractions that are shown in percent, as in tables


@dataclass
class Record:
    """One run as a tracking service stores it: times in milliseconds since 1970, artifacts by their path in the run."""

    key: str
    name: str
    experiment: str
    tags: dict[str, str]
    started: int
    ended: int
    description: str  # Markdown
    params: dict[str, str]
    history: list[tuple[str, float, int]]  # name, value, epoch
    artifacts: dict[str, Path]
    scores: dict[str, float] = field(default_factory=dict)
    numbers: dict[str, float] = field(default_factory=dict)  # others of the whole run

    def content_hash(self) -> str:
        """Return a hash of all that is shown of it but the times."""
        files = [[path, sha256_file(file)] for path, file in self.artifacts.items()]
        return value_hash([self.name, self.tags, self.description, self.params, self.points(), files])

    def points(self) -> list[tuple[str, float, int]]:
        """Return every finite number as name, value and step (the epoch; 0 for numbers of the whole run)."""
        # MLflow compares runs by the metric that was written first, and would show an infinite number as 1.8e308.
        scores = sorted(self.scores.items(), key=lambda score: (score[0] != MAIN_METRIC, score[0]))
        whole_run = [(name, value, 0) for name, value in (*scores, *self.numbers.items())]
        return [point for point in (*whole_run, *self.history) if math.isfinite(point[1])]


def read_runs(profile: str, results: Path) -> list[Record]:
    """Return the records of all finished runs below ``results``, under the labels of the tables' rows."""
    runs, tables = results / "runs", read_tables(results)
    paths = [file.parent.relative_to(runs).as_posix() for file in sorted(runs.glob("*/*/*/*@*/seed-*/*/training.json"))]
    names = labels({table["table"]: table["rows"] for table in tables}, map(series_of, paths))
    descriptions: dict[str, str] = {}
    for table in tables:
        for row in table["rows"]:
            sentence = f"**{row['label']}** in table `{table['table']}`: {table['title']}.\n\n{table['scale']}\n\n"
            text = descriptions.setdefault(row_setting(row), "")
            if sentence not in text:
                descriptions[row_setting(row)] = text + sentence
    return [_run_record(profile, path, results, names[series_of(path)], descriptions) for path in paths]


def _run_record(profile: str, path: str, results: Path, label: str, descriptions: Mapping[str, str]) -> Record:
    """Return the record of one stage of one seed."""
    setting, seed_folder, stage = path.rsplit("/", 2)
    seed = seed_folder.removeprefix("seed-")
    run, scores = results / "runs" / path, results / "scores" / path
    evaluated = [file for name in ("metrics.json", "captions.test.json") if (file := scores / name).exists()]
    files = [run / "config.yaml", run / "history.csv", run / "training.json", *evaluated]
    for file in files:
        check(file)
    names = setting_names(setting)
    ended = int((run / "training.json").stat().st_mtime * 1000)
    record = Record(
        key=f"{profile}/{path}",
        name=f"{label} seed {seed} {stage}",
        experiment=names["dataset"],
        tags={"label": label, "stage": stage, "seed": seed, **names, "recap_profile": profile},
        started=ended,
        ended=ended,
        description=f"{descriptions.get(setting, '')}Seed {seed}, {STAGE_NAMES.get(stage, stage)}.",
        params={"label": label, **_settings(run / "config.yaml")},
        history=_history(run / "history.csv"),
        artifacts={file.name: file for file in files if file.name in ("config.yaml", "captions.test.json")},
    )
    for name, value in read_json(run / "training.json", dict[str, Any]).items():
        if name.endswith("_hash"):
            continue
        if isinstance(value, bool | str):
            record.tags.setdefault(name, str(value))
        elif isinstance(value, int | float) and name not in record.tags:
            with reading(run / "training.json", RecapError):  # a number may have any length
                record.numbers["training_seconds" if name == "seconds" else name] = _SCALE.get(name, 1) * float(value)
    record.started -= int(record.numbers.get("training_seconds", 0) * 1000)
    if scores / "metrics.json" in evaluated:
        metrics = read_metrics(scores)
        for name, value in metrics.scores.items():
            try:
                scale = column_info(name).scale
            except KeyError:
                raise UnknownName(f"{scores / 'metrics.json'}: no metric gives {name!r}; {HINT}") from None
            if value is not None:
                record.scores[name] = round(scale * value, 4)  # as tables show it
        record.tags["signature"] = metrics.signature
        record.tags |= {f"not_run.{name}": reason for name, reason in metrics.not_run.items()}
    return record


def _settings(path: Path) -> dict[str, str]:
    """Return the settings of a run as flat params; the file itself, an artifact, has the hashes of its inputs."""
    settings = validate(dict[str, JsonValue], read_mapping(path).get("spec", {}), f"{path}: spec")
    leaves = {key: value for key, value in flat(settings).items() if value != {}}
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in leaves.items()}


def _history(path: Path) -> list[tuple[str, float, int]]:
    """Return every number of a history with its epoch as the step; empty cells are left out."""
    points = []
    try:
        with path.open(encoding="utf-8", newline="") as file:
            for line in csv.DictReader(file):
                epoch = int(line.pop("epoch"))
                numbers = {name: _SCALE.get(name, 1) * float(text) for name, text in line.items() if text}
                points += [(_EPOCH_NAMES.get(name, name), number, epoch) for name, number in numbers.items()]
    except (KeyError, ValueError, TypeError) as error:
        raise DamagedFile(f"{path}: not a history of training ({error}); delete it and train this run again") from error
    return points
