"""A run, its folder, and the runs of a table row.

A run's folder is ``<dataset>/<subset>/<features>/<model>@<recipe>/seed-<n>/<stage>``, where features may be several
(``a+b``), and model and recipe include the changes of the row (``transformer+encoder_layers=2``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from recap.settings import Row


@dataclass(frozen=True, order=True)
class Run:
    """One training stage of one seed, or, with `members`, the models of several seeds decoding together."""

    dataset: str
    subset: str
    features: str
    model: str
    recipe: str
    seed: int
    stage: str
    members: tuple[int, ...] = ()

    @property
    def path(self) -> str:
        """The folder of this run below ``runs/`` and ``scores/``."""
        together = "+".join(str(seed) for seed in self.members)
        return f"{self.setting}/{f'ensemble-{together}' if together else f'seed-{self.seed}'}/{self.stage}"

    @property
    def setting(self) -> str:
        """The folder shared by all seeds and stages."""
        return f"{self.dataset}/{self.subset}/{self.features}/{self.model}@{self.recipe}"

    def parts(self) -> list[Run]:
        """Return the trained runs behind this one: itself, or the members."""
        return [replace(self, seed=seed, members=()) for seed in self.members] or [self]


def row_runs(row: Row, seeds: list[int]) -> list[Run]:
    """Return the scored runs of a table row: one per seed, or the one of an ensemble of all seeds."""
    first = Run(row.dataset, row.subset, row.features, row.model, row.recipe, seeds[0], row.stage)
    if row.ensemble:
        return [replace(first, members=tuple(seeds))]
    return [replace(first, seed=seed) for seed in seeds]


def file_name(table_id: str) -> str:
    """Return the name of a table's or figure's files without suffix: ``mine_t3`` for ``mine/t3``."""
    return table_id.replace("/", "_")


def run_named(names: Mapping[str, str], **changes: Any) -> Run:
    """Return the run that names stand for: the wildcards of a rule, of which `seed` and `stage` may be missing."""
    parts = {key: names[key] for key in ("dataset", "subset", "features", "model", "recipe")}
    return Run(**{**parts, "seed": int(names.get("seed", 0)), "stage": names.get("stage", ""), **changes})
