"""What a reader knows settings by, where tables give several the same label."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from itertools import compress


def told_apart(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels of settings; to one that several have, those parts of the setting are added that differ.

    Args:
        labels: by setting, ``<dataset>/<subset>/<features>/<model>@<recipe>``.
    """
    parts = {setting: re.split("[/@]", setting) for setting in labels}
    same = defaultdict(list)
    for setting, label in labels.items():
        same[label].append(parts[setting])
    differ = {label: [len(set(values)) > 1 for values in zip(*found, strict=True)] for label, found in same.items()}
    return {
        setting: f"{label} ({', '.join(compress(parts[setting], differ[label]))})" if any(differ[label]) else label
        for setting, label in labels.items()
    }
