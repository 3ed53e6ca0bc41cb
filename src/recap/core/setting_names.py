"""The names in a setting's folder, and labels of settings told apart by them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping


def setting_names(setting: str) -> dict[str, str]:
    """Return dataset, subset, features, model and recipe of a setting's folder."""
    dataset, subset, features, last = setting.split("/")
    model, recipe = last.split("@", 1)
    return {"dataset": dataset, "subset": subset, "features": features, "model": model, "recipe": recipe}


def told_apart(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels of settings; to one that several have, those names are added in which its settings differ.

    Args:
        labels: by setting, ``<dataset>/<subset>/<features>/<model>@<recipe>``.
    """
    found: defaultdict[tuple[str, str], set[str]] = defaultdict(set)  # values by label and name
    for setting, label in labels.items():
        for name, value in setting_names(setting).items():
            found[label, name].add(value)
    result = {}
    for setting, label in labels.items():
        telling = [value for name, value in setting_names(setting).items() if len(found[label, name]) > 1]
        result[setting] = f"{label} ({', '.join(telling)})" if telling else label
    return result
