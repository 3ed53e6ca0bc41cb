"""Specs and execution settings as files: a command line has no room for those of a thousand runs."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from recap.core.files import write_text
from recap.core.hashing import value_hash
from recap.plan.inputs import used_features
from recap.plan.labels import setting_names
from recap.plan.paths import Paths
from recap.plan.run_plan import RunPlan
from recap.plan.run_spec import execution


class SpecText(str):
    """A spec as JSON, sorted, so that equal specs are equal parameters of a job.

    Commands take it as ``{params.spec.file}``: with an input or a second parameter in its place, Snakemake would find
    the command or the parameters of every finished job changed.

    Attributes:
        file: with the same JSON, for ``--spec``; its name is the hash of its content.
    """

    file: str

    @classmethod
    def written(cls, values: Any, folder: Path) -> SpecText:
        """Return the text of a spec, and write it to its file unless it is there."""
        text = cls(json.dumps(values, sort_keys=True))
        path = folder / f"{value_hash(values)}.json"
        text.file = str(path)
        if not path.exists():
            write_text(path, text + "\n")
        return text


def write_executions(plan: RunPlan, labels: Mapping[str, str], folder: Path) -> None:
    """Write how jobs are computed: ``<folder>/<recipe>.yaml`` with labels of runs, ``<folder>/features/<name>.yaml``.

    Equal files are left alone.
    """
    named: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for series, label in labels.items():
        named[setting_names(series.rpartition("/")[0])["recipe"]][series] = label
    for name in sorted({run.recipe for run in [*plan.scored(), *plan.trained()]}):
        _write_yaml(folder / f"{name}.yaml", {**execution(plan, name).model_dump(mode="json"), "labels": named[name]})
    for name in used_features(Paths(plan)):
        _write_yaml(folder / "features" / f"{name}.yaml", plan.get("features", name).execution())


def _write_yaml(path: Path, values: Mapping[str, Any]) -> None:
    write_changed(path, yaml.safe_dump(values, sort_keys=False, allow_unicode=True))


def write_changed(path: Path, text: str) -> None:
    """Write a text file unless it has this text."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        write_text(path, text)
