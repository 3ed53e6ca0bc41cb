"""Labels of runs: what the tables call them, in place of the names in their paths.

A series is what all seeds of one training stage share: ``<dataset>/<subset>/<features>/<model>@<recipe>/<stage>``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


def setting_names(setting: str) -> dict[str, str]:
    """Return dataset, subset, features, model and recipe of a setting's folder."""
    dataset, subset, features, last = setting.split("/")
    model, recipe = last.split("@", 1)
    return {"dataset": dataset, "subset": subset, "features": features, "model": model, "recipe": recipe}


def series_of(folder: str | Path) -> str:
    """Return the series of a run's folder, which ends with ``<setting>/seed-<n>/<stage>``."""
    parts = Path(folder).parts
    return "/".join(parts[-6:-2] + parts[-1:])


def row_setting(row: Mapping[str, Any]) -> str:
    """Return the setting of a table's row."""
    return "{dataset}/{subset}/{features}/{model}@{recipe}".format(**row)


def job_label(rule: str, wildcards: Mapping[str, str], labels: Mapping[str, str]) -> str:
    """Return what a job of the workflow is for: ``Small seed 2``, or the values of its wildcards; "" if it has none.

    Args:
        rule: name of its rule.
        wildcards: of the job.
        labels: of every series of runs.
    """
    seed = wildcards.get("seed", "")
    seeds = f"seed{'s' if ',' in seed else ''} {seed}" if seed else ""
    if "model" not in wildcards:
        names = [value for name, value in wildcards.items() if name != "seed"]
        return " ".join(filter(None, [*names, seeds]))
    stage = wildcards.get("stage")
    series = f"{row_setting(wildcards)}/{stage or rule.removeprefix('train_')}"
    run = labels.get(series, series)  # a file that was asked for by name may be of no table
    together = f"ensemble {wildcards['seeds']}" if "seeds" in wildcards else seeds
    return " ".join(filter(None, [run, together, stage]))


def labels(tables: Mapping[str, Iterable[Mapping[str, Any]]], trained: Iterable[str] = ()) -> dict[str, str]:
    """Return a unique label for each series, in the order of the tables' rows.

    A series has the label of the first row that is scored for it; one that no row is scored for (a first stage) has
    that of the first row with its data and model; one of another model has the model's name. The tables come in the
    order of their file names, because results do not record that of the profile. To a label that several series of
    one stage have, the names are added in which these differ.

    Args:
        tables: file name -> its rows, as planned or as in the statistics.
        trained: further series, those of trainings.
    """
    rows = [row for name in sorted(tables) for row in tables[name]]
    found: dict[str, str] = {}
    models: dict[str, str] = {}  # by a setting without its recipe
    for row in rows:
        found.setdefault(f"{row_setting(row)}/{row['stage']}", row["label"])
        models.setdefault(row_setting(row).rpartition("@")[0], row["label"])
    for series in trained:
        model = series.rpartition("@")[0]
        found.setdefault(series, models.get(model, model.rpartition("/")[2]))
    return _told_apart(found)


def _told_apart(found: Mapping[str, str]) -> dict[str, str]:
    """Return the labels, each with the names in which the series of the same label and stage differ."""
    same: defaultdict[tuple[str, str], list[dict[str, str]]] = defaultdict(list)
    for series, label in found.items():
        setting, _, stage = series.rpartition("/")
        same[label, stage].append(setting_names(setting))
    result = {}
    for series, label in found.items():
        setting, _, stage = series.rpartition("/")
        names = setting_names(setting).items()
        telling = [value for name, value in names if len({other[name] for other in same[label, stage]}) > 1]
        result[series] = f"{label} ({', '.join(telling)})" if telling else label
    return result
