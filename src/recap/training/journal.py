"""Reads what training and evaluation wrote, as flat records; knows nothing of any tracking service.

A record is one training stage of one seed, or the parent of all seeds of one model and setting.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import yaml

from recap.core.atomic import read_json
from recap.core.checksums import check
from recap.core.errors import TrainingError
from recap.core.manifests import sha256_file, value_hash

# Part of every record's hash: change it when records are built in another way, and all are published anew.
LAYOUT = 1
STAGE_FILES = ("config.yaml", "history.csv", "training.json")
SCORE_FILES = ("metrics.json", "captions.test.json")


@dataclass
class Record:
    """What a tracking service is told of one run."""

    key: str
    name: str
    experiment: str
    parent: str | None
    tags: dict[str, str]
    started: int
    ended: int
    params: dict[str, str] = field(default_factory=dict)
    metrics: list[tuple[str, float, int]] = field(default_factory=list)
    scores: dict[str, float] = field(default_factory=dict)
    artifacts: list[Path] = field(default_factory=list)
    hash: str = ""

    def points(self) -> list[tuple[str, float, int]]:
        """Return every number as name, value and step (the epoch; 0 for what holds for the whole run)."""
        return [*self.metrics, *((name, value, 0) for name, value in self.scores.items())]


def read_records(*, profile: str, results: Path) -> list[Record]:
    """Return the records of all finished runs below ``results``, each parent before its children.

    Args:
        profile: name of the profile; part of every record's key.
        results: the folder ``results/<profile>``.

    Raises:
        TrainingError: a file of a run is missing or broken; the sentence names it.
    """
    runs = results / "runs"
    settings: dict[str, list[Record]] = {}
    for path in sorted(runs.glob("*/*/*/*@*/seed-*/*/training.json")):
        folder = path.parent
        setting = folder.parent.parent.relative_to(runs).as_posix()
        settings.setdefault(setting, []).append(_child(profile, setting, folder, results))
    return [record for key, group in settings.items() for record in (_parent(profile, key, group, results), *group)]


def _child(profile: str, setting: str, folder: Path, results: Path) -> Record:
    """Return the record of one stage of one seed."""
    path = f"{setting}/{folder.parent.name}/{folder.name}"
    seed, stage = folder.parent.name.removeprefix("seed-"), folder.name
    names = _names(setting)
    scores = results / "scores" / path
    files = [folder / name for name in STAGE_FILES]
    files += [scores / name for name in SCORE_FILES if (scores / name).exists()]
    digests = [[file.name, _digest(file)] for file in files]
    facts = read_json(folder / "training.json")
    ended = int((folder / "training.json").stat().st_mtime * 1000)
    record = Record(
        key=f"{profile}/{path}",
        name=f"{names['model']}-{names['dataset']}-{names['subset']}-s{seed}-{stage}",
        experiment=names["dataset"],
        parent=f"{profile}/{setting}",
        tags={**names, "recap_profile": profile, "stage": stage, "seed": seed, "level": "run"},
        started=ended - int(float(facts.get("seconds", 0)) * 1000),
        ended=ended,
        params=_params(folder / "config.yaml"),
        metrics=_history(folder / "history.csv"),
        artifacts=[file for file in files if file.name in ("config.yaml", "captions.test.json")],
    )
    _add_facts(record, facts)
    if (scores / "metrics.json").exists():
        _add_scores(record, read_json(scores / "metrics.json"))
    record.hash = value_hash([LAYOUT, record.tags, digests])
    return record


def _parent(profile: str, setting: str, children: list[Record], results: Path) -> Record:
    """Return the record of one model and setting: the mean over seeds of every score of the last scored stage.

    It carries the card of its data set, where there is one.
    """
    names = _names(setting)
    scored = [child for child in children if child.scores]
    stage = "scst" if any(child.tags["stage"] == "scst" for child in scored) else "xe"
    last = [child for child in scored if child.tags["stage"] == stage]
    metrics = sorted({name for child in last for name in child.scores})
    label = [f"{names['model']}@{names['recipe']}", names["dataset"], names["subset"], names["features"]]
    seeds = sorted({int(child.tags["seed"]) for child in children})
    record = Record(
        key=f"{profile}/{setting}",
        name=" | ".join(label),
        experiment=names["dataset"],
        parent=None,
        tags={**names, "recap_profile": profile, "level": "setting", "stage": stage, "seeds": str(seeds)},
        started=min(child.started for child in children),
        ended=max(child.ended for child in children),
        metrics=[("seeds", float(len(seeds)), 0)],
        scores={name: fmean(child.scores[name] for child in last if name in child.scores) for name in metrics},
    )
    card = results / "data" / names["dataset"] / "card.md"
    record.artifacts = [card] if card.exists() else []
    record.hash = value_hash([LAYOUT, record.tags, record.scores, [_digest(file) for file in record.artifacts]])
    return record


def flat(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the leaves of nested mappings as ``a.b.c`` and text; lists are leaves, written as JSON."""
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            yield from flat(value, f"{name}.")
        else:
            yield name, value if isinstance(value, str) else json.dumps(value)


def _params(path: Path) -> dict[str, str]:
    """Return a run's config as flat params; the spec it was given stands at the top, like the hashes beside it."""
    config = _read_yaml(path)
    return dict(flat({**config.pop("spec", {}), **config}))


def _names(setting: str) -> dict[str, str]:
    """Return dataset, subset, features, model and recipe of a setting's folder."""
    dataset, subset, features, last = setting.split("/")
    model, recipe = last.split("@", 1)
    return {"dataset": dataset, "subset": subset, "features": features, "model": model, "recipe": recipe}


def _add_facts(record: Record, facts: dict[str, Any]) -> None:
    """Add training.json: numbers become metrics, the rest tags."""
    for name, value in facts.items():
        if isinstance(value, bool | str):
            record.tags.setdefault(name, str(value))
        elif isinstance(value, int | float) and name not in record.tags:
            record.metrics.append(("training_seconds" if name == "seconds" else name, float(value), 0))


def _add_scores(record: Record, metrics: dict[str, Any]) -> None:
    """Add metrics.json; a metric that did not run is a tag with the reason, never a number."""
    record.scores = {name: float(value) for name, value in metrics["scores"].items() if value is not None}
    record.tags["signature"] = str(metrics["signature"])
    record.tags |= {f"not_run.{name}": str(reason) for name, reason in metrics.get("not_run", {}).items()}


def _history(path: Path) -> list[tuple[str, float, int]]:
    """Return every number of a history with its epoch as the step; empty cells are left out."""
    points = []
    try:
        with path.open(encoding="utf-8", newline="") as file:
            for line in csv.DictReader(file):
                epoch = int(line.pop("epoch"))
                points += [(_epoch_name(name), float(text), epoch) for name, text in line.items() if text]
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise TrainingError(
            f"{path}: not a history of training ({error}); delete it and train this run again"
        ) from error
    return [point for point in points if not math.isnan(point[1])]


def _epoch_name(column: str) -> str:
    """Return the metric's name of a column; seconds and steps of an epoch are no facts of the whole run."""
    return {"seconds": "epoch_seconds", "step": "optimizer_step"}.get(column, column)


def _read_yaml(path: Path) -> dict[str, Any]:
    """Read a run's config; a missing or broken one is an error that names it."""
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise TrainingError(f"{path}: cannot be read; delete its folder and train this run again") from error
    return values if isinstance(values, dict) else {}


def _digest(path: Path) -> str:
    """Return a file's hash; a missing or changed one is an error that names it."""
    check(path)
    try:
        return sha256_file(path)
    except OSError as error:
        raise TrainingError(f"{path}: cannot be read ({error.strerror}); run the step that makes it again") from error
