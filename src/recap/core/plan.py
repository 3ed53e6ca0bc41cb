"""The runs that the rows of all requested tables need, planned before the first job; equal rows are trained once.

Paths: ``<dataset>/<subset>/<features>/<model>@<recipe>/seed-<n>/<stage>``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from recap.core.config import Profile, Recipe, Row, Table
from recap.core.errors import ConfigError, nearest
from recap.core.params import load_named, with_sources


@dataclass(frozen=True, order=True)
class Run:
    """One training stage of one seed, or, with `members`, the models of several seeds speaking together."""

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
    """Return the scored runs of a table row: one a seed, or the one of an ensemble of all seeds."""
    first = Run(row.dataset, row.subset, row.features, row.model, row.recipe, seeds[0], row.stage)
    if row.ensemble:
        return [replace(first, members=tuple(seeds))]
    return [replace(first, seed=seed) for seed in seeds]


class RunPlan:
    """Everything a profile needs, loaded and checked before the first job."""

    def __init__(self, profile: Profile, params: Path) -> None:
        self.profile = profile
        self.params = params
        self._cache: dict[tuple[str, str], Any] = {}
        self.tables: dict[str, Table] = {
            name: self._asked("tables", name, f"profile {profile.name!r}") for name in profile.tables
        }
        for title, table in self.tables.items():
            for row in table.rows:
                for section, name in self._parts(row):
                    self._asked(section, name, f"row {row.id!r} of table {title!r}")
                if row.stage == "scst" and self.get("recipes", row.recipe).scst is None:
                    raise ConfigError(f"row {row.id!r} asks for stage scst, but recipe {row.recipe!r} has none")

    def _asked(self, section: str, name: str, who: str) -> Any:
        """Return a config object; what is wrong with it is said together with who asks for it."""
        try:
            return self.get(section, name)
        except ConfigError as error:
            raise ConfigError(f"{error} (asked for by {who})") from error

    @staticmethod
    def _parts(row: Row) -> list[tuple[str, str]]:
        return [
            ("datasets", row.dataset),
            ("subsets", row.subset),
            ("features", row.features),
            ("models", row.model),
            ("recipes", row.recipe),
        ]

    def get(self, section: str, name: str) -> Any:
        """Return the config object ``params/<section>/<name>.yaml``, loaded once."""
        if (section, name) not in self._cache:
            self._cache[section, name] = load_named(self.params, section, name)
        return self._cache[section, name]

    def spec(self, section: str, name: str) -> dict[str, Any]:
        """Return a config object as plain JSON values, complete with defaults."""
        values: dict[str, Any] = self.get(section, name).model_dump(mode="json")
        return values

    def row(self, row_id: str) -> tuple[str, Row]:
        """Return the table's name and the row of ``TABLE/ROW``.

        Raises:
            ConfigError: the plan has no such row.
        """
        known = {f"{name}/{row.id}": (name, row) for name, table in self.tables.items() for row in table.rows}
        if row_id not in known:
            raise ConfigError(f"there is no row {row_id!r}; {nearest(row_id, known)}")
        return known[row_id]

    def first_stage(self, run: Run) -> Run:
        """Return the cross-entropy training of a run."""
        return replace(run, stage="xe")

    def resolve_with_sources(self, section: str, name: str) -> dict[str, tuple[Any, str]]:
        """Return the values of a parameter file by dotted key, each with the file that says so, or ``default``."""
        return with_sources(self.params, section, name, self.spec(section, name))

    def scored(self) -> list[Run]:
        """Return the runs whose captions are scored, each once."""
        rows = [row for table in self.tables.values() for row in table.rows]
        return sorted({run for row in rows for run in row_runs(row, self.profile.seeds)})

    def names(self) -> set[tuple[str, str]]:
        """Return section and name of every parameter file that a table or a row names."""
        rows = [row for table in self.tables.values() for row in table.rows]
        return {("tables", name) for name in self.tables} | {part for row in rows for part in self._parts(row)}

    def datasets(self) -> list[str]:
        """Return the names of the data sets in use."""
        return sorted({run.dataset for run in self.scored()})

    def recipe(self, name: str) -> Recipe:
        """Return a recipe by name."""
        recipe: Recipe = self.get("recipes", name)
        return recipe
