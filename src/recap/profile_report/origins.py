"""Where the numbers of a report are from: versions, commits, data sets, signatures."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from recap.core.errors import counted
from recap.core.hashing import commit
from recap.data.corpus import SPLITS, Corpus
from recap.plan.paths import Paths
from recap.plan.run_plan import RunPlan
from recap.profile_report.tables import ShownTable

_PACKAGES = ("recap", "torch", "numpy", "scipy", "pycocoevalcap", "timm", "snakemake")
_OF_A_TRAINING = {"git_commit": "commit", "torch": "torch", "device": "device", "threads": "threads"}


@dataclass(frozen=True)
class Origin:
    """One line: what, and its value, of which a long one may be broken anywhere."""

    name: str
    value: str


def origins(plan: RunPlan, records: Sequence[Mapping[str, Any]], tables: Sequence[ShownTable]) -> list[Origin]:
    """Return versions, commits, data sets and signatures behind the numbers of a report.

    Args:
        plan: the plan.
        records: ``training.json`` of each finished training.
        tables: of the report.
    """
    found = [Origin("Report made by", f"{_versions()}, Python {platform.python_version()}, commit {commit()}")]
    for key, name in _OF_A_TRAINING.items():
        counts = Counter(str(record[key]) for record in records if key in record)
        values = "; ".join(f"{value} ({counted(count, 'training')})" for value, count in counts.most_common())
        found += [Origin(f"Trainings: {name}", values)] if values else []
    found += [_data_set(plan, name) for name in plan.datasets()]
    features = sorted({(str(record["features"]), str(record["feature_hash"])) for record in records})
    found += [Origin(f"Features {name}", f"hash {digest}") for name, digest in features]
    signatures = dict.fromkeys(text for table in tables if table.content for text in table.content.signatures)
    return [*found, *(Origin("Signature", text) for text in signatures)]


def _versions() -> str:
    return ", ".join(f"{name} {found}" for name in _PACKAGES if (found := _version(name)))


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:  # an extra that is not installed
        return ""


def _data_set(plan: RunPlan, name: str) -> Origin:
    """Return the images of each split of a data set, and the hashes of its source and of its splits."""
    path = Path(Paths(plan).of_dataset(name, "corpus.parquet"))
    if not path.is_file():
        return Origin(f"Data set {name}", "not read yet")
    corpus = Corpus.read(path)
    images = {split: len(np.unique(corpus.image_id[corpus.split == split])) for split in SPLITS}
    counts = ", ".join(f"{number:,} {split}" for split, number in images.items() if number)
    hashes = f"source sha256 {corpus.source_sha256}, splits {corpus.split_hash}"
    return Origin(f"Data set {name}", f"{counts} images; {hashes}")
