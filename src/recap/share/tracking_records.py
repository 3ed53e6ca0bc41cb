"""Finished runs and tables as flat records, read from their files, independent of any tracking service.

A record is one training stage of one seed, or a table. Records have no parents: a list of them shows every score, and
means over seeds are a grouping of that list.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from pydantic import JsonValue

from recap.core.checksums import check
from recap.core.documents import read_json
from recap.core.errors import ConfigError, DamagedFile, RecapError, UnknownName, nearest
from recap.core.hashing import sha256_file, value_hash
from recap.plan.records import read_tables
from recap.plan.run import labels, row_setting, series_of, setting_names
from recap.settings.figures import FIGURES, ModelFigure
from recap.settings.metrics import METRICS
from recap.settings.params import flat, read_mapping, validate
from recap.settings.tables import STAGE_NAMES, column_info
from recap.statistics.scores import read_metrics

MAIN_METRIC = "CIDEr"
_EPOCH_NAMES = {"seconds": "epoch_seconds", "step": "optimizer_step"}  # of columns of a history
_SCALE = {"val_cider_d": 100, "best_val_cider_d": 100}  # of fractions that are shown in percent, as in tables
_MAX_DESCRIPTION = 7900  # MLflow cuts a description after 8,000 characters
_MAX_NAME = 150  # of MLflow's 250, which the name of a metric and the id of a row share

Table = Mapping[str, Any]  # the statistics of a table


@dataclass
class Record:
    """One run as a tracking service stores it: times in milliseconds since 1970, artifacts by their path in the run."""

    key: str
    name: str
    experiment: str
    tags: dict[str, str]
    started: int
    ended: int
    description: str = ""  # Markdown
    params: dict[str, str] = field(default_factory=dict)
    scores: dict[str, float] = field(default_factory=dict)
    numbers: dict[str, float] = field(default_factory=dict)  # others of the whole run
    history: list[tuple[str, float, int]] = field(default_factory=list)  # name, value, epoch
    artifacts: dict[str, Path] = field(default_factory=dict)

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


def read_records(*, profile: str, results: Path, reports: Path) -> list[Record]:
    """Return the records of all finished runs and tables of a profile; no run is an error (a mistyped folder)."""
    runs = read_runs(profile, results)
    if not runs:
        raise RecapError(
            f"{results}: {'no finished run in this folder' if results.is_dir() else 'no such folder'}; "
            "nothing was published and nothing removed: run the profile first, or give the folder of its results"
        )
    return runs + [_table_record(profile, table, results, reports) for table in read_tables(results)]


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
        tags={"label": label, "stage": stage, "seed": seed, **names, "recap_profile": profile, "level": "run"},
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
            record.numbers["training_seconds" if name == "seconds" else name] = _SCALE.get(name, 1) * float(value)
    record.started -= int(record.numbers.get("training_seconds", 0) * 1000)
    if scores / "metrics.json" in evaluated:
        metrics = read_metrics(scores)
        computed = {name: value for name, value in metrics.scores.items() if value is not None}
        record.scores = {name: _as_in_tables(name, value, scores / "metrics.json") for name, value in computed.items()}
        record.tags |= {"signature": metrics.signature} | {
            f"not_run.{name}": reason for name, reason in metrics.not_run.items()
        }
    return record


def _table_record(profile: str, table: Table, results: Path, reports: Path) -> Record:
    """Return the record of one table: tables, figures and the cards of its data sets as artifacts."""
    name, rows = table["table"], table["rows"]
    baseline = next(row for row in rows if row["id"] == table["baseline"])
    artifacts = _table_files(table, results, reports)
    page = artifacts.get(f"tables/{name}.md")
    text = page.read_text(encoding="utf-8") if page else ""
    seeds = ", ".join(map(str, table["seeds"]))
    ended = int((results / "statistics" / f"{name}.json").stat().st_mtime * 1000)
    row_names = _row_names(rows)
    return Record(
        key=f"{profile}/tables/{name}",
        name=f"table {name}",
        experiment=baseline["dataset"],
        tags={"recap_profile": profile, "level": "table", "table": name, "seed": seeds},
        started=ended,
        ended=ended,
        description=text if 0 < len(text) <= _MAX_DESCRIPTION else f"**{table['title']}**\n\n{table['scale']}",
        params={"baseline": baseline["label"], "seeds": seeds}
        | {f"setting: {row_name}": row_setting(row) for row_name, row in zip(row_names, rows, strict=True)},
        # MLflow sorts its charts by name; those of the runs' scores come first.
        numbers={
            f"mean {metric}: {row_name}": _as_in_tables(metric, row["cells"][metric]["mean"], f"table {name}")
            for metric in table["columns"]
            for row_name, row in zip(row_names, rows, strict=True)
            if row["cells"].get(metric, {}).get("mean") is not None
        },
        artifacts=artifacts,
    )


def _row_names(rows: Sequence[Table]) -> list[str]:
    """Return the labels of rows as parts of names that MLflow allows, with the ids unless they are then distinct."""
    names = [" ".join(re.sub(r"[^\w.:-]+", " ", row["label"]).split())[:_MAX_NAME] for row in rows]
    distinct = all(names) and len(set(names)) == len(names)
    return names if distinct else [f"{name} {row['id']}".strip() for name, row in zip(names, rows, strict=True)]


def _table_files(table: Table, results: Path, reports: Path) -> dict[str, Path]:
    """Return the files of a table and its figures, the learning curves of all runs, and the cards of its data sets."""
    name = table["table"]
    drawn = {Path(ending).stem for kind in FIGURES.classes().values() for ending in cast(type[ModelFigure], kind).files}
    stems = {name, f"{name}.paper", "curves", *(f"{name}_{figure}" for figure in ("captions", *drawn))}
    pages = sorted(file for file in reports.glob("*/*") if file.stem in stems and file.is_file())
    cards = [results / "data" / dataset / "card.md" for dataset in sorted({row["dataset"] for row in table["rows"]})]
    return {file.relative_to(reports).as_posix(): file for file in pages} | {
        f"data/{card.parent.name}.md": card for card in cards if card.exists()
    }


def _as_in_tables(metric: str, value: float, source: object) -> float:
    """Return a score on the scale of the tables, rounded for display."""
    try:
        return round(column_info(metric).scale * value, 4)
    except KeyError:
        raise UnknownName(f"{source}: no metric gives {metric!r}; {nearest(metric, METRICS.names())}") from None


def _settings(path: Path) -> dict[str, str]:
    """Return the settings of a run as flat params; the file itself, an artifact, has the hashes of its inputs."""
    try:
        settings = validate(dict[str, JsonValue], read_mapping(path).get("spec", {}), f"{path}: spec")
    except ConfigError as error:
        raise RecapError(f"{error}; delete its folder and train this run again") from error
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
