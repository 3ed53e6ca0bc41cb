"""Finished runs as flat records, read from their files,
and as text for a terminal; no tracking service is asked.

A record is one training stage of one seed. Records have no parents: a list of them shows every
score, and means over seeds are a grouping of that list.
"""

from __future__ import annotations

import csv
import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from recap.core.checksums import check
from recap.core.documents import HINT, read_json
from recap.core.errors import DamagedFile, RecapError, UnknownName, nearest
from recap.core.files import reading
from recap.core.hashing import sha256_file, value_hash
from recap.plan.run import labels, row_setting, series_of, setting_names
from recap.settings.params import flat, read_mapping, validate
from recap.settings.tables import STAGE_NAMES, column_info
from recap.statistics.results import read_tables
from recap.statistics.scores import read_metrics
from recap.tables.text import plain

MAIN_METRIC = "CIDEr"
_HEADINGS = [
    "run",
    "data",
    "features",
    "parameters",
    "epochs",
    "hours",
    "val CIDEr-D",
    f"test {MAIN_METRIC}",
]
_EPOCH_NAMES = {"seconds": "epoch_seconds", "step": "optimizer_step"}  # of columns of a history
# of fractions that are shown in percent, as in tables
_SCALE = {"val_cider_d": 100, "best_val_cider_d": 100}


@dataclass
class Record:
    """A finished run and what is known of it:
    times in milliseconds since 1970, artifacts by their path in the run."""

    key: str
    name: str
    results: Path  # of its profile
    folder: Path
    scores_folder: Path | None  # None: it was not evaluated
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
        return value_hash(
            [self.name, self.tags, self.description, self.params, self.points(), files]
        )

    def points(self) -> list[tuple[str, float, int]]:
        """Return every finite number as name, value and step (epoch; 0: of the whole run)."""
        # MLflow compares runs by the metric that was written first,
        # and would show an infinite number as 1.8e308.
        scores = sorted(self.scores.items(), key=lambda score: (score[0] != MAIN_METRIC, score[0]))
        whole_run = [(name, value, 0) for name, value in (*scores, *self.numbers.items())]
        return [point for point in (*whole_run, *self.history) if math.isfinite(point[1])]


def read_runs(profile: str, results: Path) -> list[Record]:
    """Return the records of all finished runs below ``results``, by labels of the tables' rows."""
    runs = results / "runs"
    tables = read_tables(results)
    paths = [
        file.parent.relative_to(runs).as_posix()
        for file in sorted(runs.glob("*/*/*/*@*/seed-*/*/training.json"))
    ]
    rows = {table.table: map(vars, table.rows) for table in tables}
    names = labels(rows, map(series_of, paths))
    descriptions: dict[str, str] = defaultdict(str)
    for table in tables:
        for row in table.rows:
            descriptions[row_setting(vars(row))] += (
                f"**{row.label}** in table `{table.table}`: {table.title}.\n\n{table.scale}\n\n"
            )
    return [
        _run_record(profile, path, results, names[series_of(path)], descriptions) for path in paths
    ]


def _run_record(
    profile: str, path: str, results: Path, label: str, descriptions: Mapping[str, str]
) -> Record:
    """Return the record of one stage of one seed."""
    setting, seed_folder, stage = path.rsplit("/", 2)
    seed = seed_folder.removeprefix("seed-")
    run = results / "runs" / path
    scores = results / "scores" / path
    captions = scores / "captions.test.json"
    metrics = scores / "metrics.json"
    for file in (
        run / "config.yaml",
        run / "history.csv",
        run / "training.json",
        metrics,
        captions,
    ):
        check(file)
    artifacts = [run / "config.yaml"]
    if captions.exists():
        artifacts.append(captions)
    ended = int((run / "training.json").stat().st_mtime * 1000)
    names = setting_names(setting)
    record = Record(
        key=f"{profile}/{path}",
        name=f"{label} seed {seed} {stage}",
        results=results,
        folder=run,
        scores_folder=scores if metrics.exists() else None,
        tags={"label": label, "stage": stage, "seed": seed, **names, "recap_profile": profile},
        started=ended,
        ended=ended,
        description=f"{descriptions[setting]}Seed {seed}, {STAGE_NAMES.get(stage, stage)}.",
        params={"label": label, **_settings(run / "config.yaml")},
        history=_history(run / "history.csv"),
        artifacts={file.name: file for file in artifacts},
    )
    _add_training(record, run / "training.json")
    if record.scores_folder:
        _add_scores(record, scores)
    return record


def _settings(config: Path) -> dict[str, str]:
    """Return the settings of a run, flat; the file itself, an artifact, has its inputs' hashes."""
    spec = read_mapping(config).get("spec", {})
    texts = {}
    for key, value in flat(validate(dict[str, JsonValue], spec, f"{config}: spec")).items():
        if value != {}:
            texts[key] = value if isinstance(value, str) else json.dumps(value)
    return texts


def _add_training(record: Record, file: Path) -> None:
    """Add the numbers and the words of training.json to a record, and when the run began."""
    with reading(file, RecapError):  # a number may have any length
        for name, value in read_json(file, dict[str, Any]).items():
            if name.endswith("_hash"):
                continue
            if isinstance(value, bool | str):
                record.tags.setdefault(name, str(value))
            elif isinstance(value, int | float) and name not in record.tags:
                number = "training_seconds" if name == "seconds" else name
                record.numbers[number] = _SCALE.get(name, 1) * float(value)
        record.started -= int(record.numbers.get("training_seconds", 0) * 1000)


def _add_scores(record: Record, folder: Path) -> None:
    """Add the scores to a record, as tables show them, and why others were not computed."""
    metrics = read_metrics(folder)
    for name, value in metrics.scores.items():
        try:
            scale = column_info(name).scale
        except KeyError:
            raise UnknownName(
                f"{folder / 'metrics.json'}: no metric gives {name!r}; {HINT}"
            ) from None
        if value is not None:
            record.scores[name] = round(scale * value, 4)
    record.tags["signature"] = metrics.signature
    for name, reason in metrics.not_run.items():
        record.tags[f"not_run.{name}"] = reason


def _history(path: Path) -> list[tuple[str, float, int]]:
    """Return every number of a history with its epoch as the step; empty cells are left out."""
    points = []
    try:
        with path.open(encoding="utf-8", newline="") as file:
            for line in csv.DictReader(file):
                epoch = int(line.pop("epoch"))
                for name, text in line.items():
                    if text:
                        number = _SCALE.get(name, 1) * float(text)
                        points.append((_EPOCH_NAMES.get(name, name), number, epoch))
    except (KeyError, ValueError, TypeError) as error:
        raise DamagedFile(
            f"{path}: not a history of training ({error}); delete it and train this run again"
        ) from error
    return points


def finished_runs(results: Path) -> list[Record]:
    """Return the finished runs of all profiles below a folder, under the labels of their tables."""
    records = []
    for runs in sorted(results.glob("*/runs")):
        records += read_runs(runs.parent.name, runs.parent)
    return records


def find_run(runs: Sequence[Record], name: str) -> Record:
    """Return the run whose key, folder or name is `name`,
    or the only one whose key or name has it as a part."""
    path = Path(name).absolute()
    matches = [run for run in runs if name in (run.key, run.name) or path == run.folder.absolute()]
    matches = matches or [run for run in runs if name in run.key or name in run.name]
    if len(matches) == 1:
        return matches[0]
    if matches:
        first, second, *_ = matches
        found = f"{name!r} is in {len(matches)} runs, such as {first.key} and {second.key}"
    else:
        known = nearest(name, [run.name for run in runs]) if runs else "there are none yet"
        found = f"there is no run {name!r}; {known}"
    raise UnknownName(found)


def run_table(runs: Sequence[Record], part: str) -> list[list[str]]:
    """Return a line of cells for each run with this part of its key or name, below the headings."""
    lines = [_HEADINGS]
    for run in runs:
        if part not in run.key and part not in run.name:
            continue
        tags, numbers = run.tags, run.numbers
        lines.append(
            [
                plain(f"{tags['recap_profile']}: {run.name}"),
                f"{tags['dataset']}/{tags['subset']}",
                tags["features"],
                f"{numbers.get('parameters', 0) / 1e6:.2f} M",
                f"{numbers.get('epochs', 0):.0f}",
                f"{numbers.get('training_seconds', 0) / 3600:.2f}",
                f"{numbers['best_val_cider_d']:.1f}" if "best_val_cider_d" in numbers else "-",
                f"{run.scores[MAIN_METRIC]:.2f}" if MAIN_METRIC in run.scores else "-",
            ]
        )
    return lines


def describe_run(run: Record) -> list[str]:
    """Return what is known of a run: folder, scores, numbers of the training, settings."""
    lines = [plain(run.name), f"folder: {run.folder}"]
    if run.scores_folder:
        lines += [f"scores: {run.scores_folder}", f"signature: {plain(run.tags['signature'])}"]
        lines += [f"  {name}: {value:.2f}" for name, value in sorted(run.scores.items())]
        for name, why in sorted(run.tags.items()):
            if name.startswith("not_run."):
                lines.append(f"  {name.removeprefix('not_run.')}: not run ({plain(why)})")
    else:
        lines.append("scores: none, the run was not evaluated")
    lines.append("training:")
    lines += [f"  {name}: {value:g}" for name, value in sorted(run.numbers.items())]
    lines.append("settings:")
    lines += [f"  {name}: {plain(value)}" for name, value in sorted(run.params.items())]
    return lines
