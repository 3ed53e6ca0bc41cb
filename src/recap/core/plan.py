"""The runs that the rows of all requested tables need, planned before the first job; equal rows are trained once.

Paths: ``<dataset>/<subset>/<features>/<model>@<recipe>/seed-<n>/<stage>``, where features may be several (``a+b``), and
model and recipe say what a row changes of their files (``xlan+encoder_layers=2``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from recap.core.config import Profile, Recipe, Row, RowFile, Scale, Table, TableFile, Titles
from recap.core.errors import ConfigError, nearest
from recap.core.params import base_files, load_named, read_mapping, validate
from recap.core.scale_text import Pair, sentence
from recap.core.scaling import PlannedRow, Scaler
from recap.core.variants import Variant


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


class RunPlan:
    """Everything a profile needs, loaded and checked before the first job.

    Attributes:
        profile: what is asked for.
        params: the folder ``params/``.
        tables: id (``xlan/t3``) -> the table at the profile's scale, its rows with parts of paths.
        seeds: id of a table -> the seeds of its rows.
    """

    def __init__(self, profile: Profile, params: Path) -> None:
        self.profile = profile
        self.params = params
        self._files: dict[tuple[str, str], Any] = {}
        self._variants: dict[tuple[str, str], Variant] = {}
        self._features: dict[str, tuple[str, ...]] = {}
        who = f"profile {profile.name!r}"
        self.scale: Scale | None = self._asked("scales", profile.scale, who) if profile.scale else None
        self._titles = _titles(params)
        self.tables: dict[str, Table] = {}
        self.seeds: dict[str, list[int]] = {}
        for table_id in profile.tables:
            self._add(table_id, self._asked("tables", table_id, who))

    def _add(self, table_id: str, file: TableFile) -> None:
        """Plan one table."""
        scale = (str(self.profile.scale), self.scale) if self.scale else None
        before, after = (Scaler(self.params, table_id, file, side) for side in (None, scale))
        made, quoted = after.made_rows()
        seeds = self.profile.seeds or after.seeds()
        rows, pairs = [], []
        for row in made:
            who = f"row {row.id!r} of table {table_id!r}"
            planned = after.row(row)
            self._check(planned, row, who)
            rows.append(self._row(row, planned))
            pairs.append(Pair(self._settings(before.row(row), who), self._settings(planned, who)))
        text = sentence(
            table=file,
            scale=self.scale,
            notes=[layer.note for _, layer in after.layers],
            titles=self._titles,
            pairs=pairs,
            seeds=len(seeds),
        )
        self.seeds[table_id] = seeds
        self.tables[table_id] = Table(
            title=file.title,
            scale=text,
            paper_scale=bool(self.scale and self.scale.paper),
            columns=file.columns,
            baseline=file.baseline,
            quoted=quoted,
            rows=rows,
            attention=[name for name in file.attention if name in {row.id for row in made}],
        )
        file_names = [file_name(name) for name in self.tables]
        if len(set(file_names)) != len(file_names):
            raise ConfigError(f"table {table_id!r}: another one's files have the same names; rename one of the two")

    def _check(self, planned: PlannedRow, row: RowFile, who: str) -> None:
        """Load everything that a row names, and keep its variants."""
        names = [("datasets", planned.dataset), ("subsets", planned.subset)]
        for section, name in [*names, *(("features", name) for name in planned.features)]:
            self._asked(section, name, who)
        for variant in (planned.model, planned.recipe):
            key = (variant.section, variant.name)
            loaded = self._loaded(variant, who)
            if self._files.setdefault(key, loaded) != loaded:
                raise ConfigError(f"{who}: {variant.section} {variant.name!r} means two things; give one another file")
            self._variants[key] = variant
        self._features["+".join(planned.features)] = planned.features
        if planned.stage == "scst" and self.recipe(planned.recipe.name).scst is None:
            raise ConfigError(f"{who} asks for stage scst, but recipe {planned.recipe.name!r} has none")

    def _row(self, row: RowFile, planned: PlannedRow) -> Row:
        """Return a row with parts of paths; a cross-entropy row has the recipe that its training and scores share."""
        recipe = planned.recipe.name
        if planned.stage == "xe":
            recipe = self._shared(recipe, "xe", "processes", "evaluation")
        return Row(
            id=row.id,
            label=row.label,
            dataset=planned.dataset,
            subset=planned.subset,
            features="+".join(planned.features),
            model=planned.model.name,
            recipe=recipe,
            stage=planned.stage,
            ensemble=row.ensemble,
            printed=row.printed,
        )

    def _settings(self, row: PlannedRow, who: str) -> dict[str, Any]:
        """Return what a row trains on, for the sentence that says what was replaced."""
        model = self._loaded(row.model, who)
        return {
            "dataset": (row.dataset,),
            "subset": self._asked("subsets", row.subset, who),
            "features": row.features,
            "model": (model.kind, model.model_dump(exclude={"kind"})),
            "recipe": self._loaded(row.recipe, who),
            "stage": row.stage,
        }

    def _asked(self, section: str, name: str, who: str) -> Any:
        """Return a config object; what is wrong with it is said together with who asks for it."""
        try:
            return self.get(section, name)
        except ConfigError as error:
            raise ConfigError(f"{error} (asked for by {who})") from error

    def _loaded(self, variant: Variant, who: str) -> Any:
        try:
            return variant.load(self.params)
        except ConfigError as error:
            raise ConfigError(f"{error} (asked for by {who})") from error

    def get(self, section: str, name: str) -> Any:
        """Return the config object of a part of a path, or of ``params/<section>/<name>.yaml``, loaded once."""
        if (section, name) not in self._files:
            self._files[section, name] = load_named(self.params, section, name)
        return self._files[section, name]

    def spec(self, section: str, name: str) -> dict[str, Any]:
        """Return a config object as plain JSON values, complete with defaults."""
        values: dict[str, Any] = self.get(section, name).model_dump(mode="json")
        return values

    def variant(self, section: str, name: str) -> Variant:
        """Return a part of a path as file and changes."""
        return self._variants.get((section, name), Variant(section, name))

    def resolve_with_sources(self, section: str, name: str) -> dict[str, tuple[Any, str]]:
        """Return the values behind a part of a path by dotted key, each with where it comes from.

        The source is a file of ``params/``, a key of the scale, a row of a table, or ``default``.
        """
        return self.variant(section, name).with_sources(self.params)

    def source(self, section: str, name: str) -> str:
        """Return where a part of a path is written: the row or scale that changes it, or its file."""
        variant = self.variant(section, name)
        return variant.changes[-1].source if variant.changes else f"{self.params.name}/{section}/{variant.base}.yaml"

    def feature_names(self, part: str) -> tuple[str, ...]:
        """Return the names of the features that a part of a path stands for."""
        return self._features.get(part, (part,))

    def row(self, row_id: str) -> tuple[str, Row]:
        """Return the table's id and the row of ``xlan/t3/enc2``.

        Raises:
            ConfigError: the plan has no such row.
        """
        known = {
            f"{table_id}/{row.id}": (table_id, row) for table_id, table in self.tables.items() for row in table.rows
        }
        if row_id not in known:
            raise ConfigError(f"there is no row {row_id!r}; {nearest(row_id, known)}")
        return known[row_id]

    def table_runs(self, table_id: str) -> list[Run]:
        """Return the scored runs of a table, each once."""
        return sorted({run for row in self.tables[table_id].rows for run in row_runs(row, self.seeds[table_id])})

    def scored(self) -> list[Run]:
        """Return the runs whose captions are scored, each once."""
        return sorted({run for table_id in self.tables for run in self.table_runs(table_id)})

    def trained(self) -> list[Run]:
        """Return every training stage in use: a scored run and, for SCST, the cross-entropy run it starts from."""
        scored = {part for run in self.scored() for part in run.parts()}
        return sorted({self.weights(run) for run in scored} | {self.first_stage(run) for run in scored})

    def weights(self, run: Run) -> Run:
        """Return the training whose weights a scored run of one seed uses."""
        return self.first_stage(run) if run.stage == "xe" else run

    def first_stage(self, run: Run) -> Run:
        """Return the cross-entropy training of a run, which recipes that differ in the second stage alone share."""
        return replace(run, recipe=self._shared(run.recipe, "xe", "processes"), stage="xe")

    def _shared(self, recipe: str, *keys: str) -> str:
        """Return the name of the lowest base of a recipe that is like it in some keys."""
        variant = self.variant("recipes", recipe)
        bases = [Path(source).stem for source, _ in base_files(self.params, "recipes", variant.base)][::-1]
        own = self.get("recipes", recipe)
        alike = recipe
        for base in bases:
            if any(getattr(self.get("recipes", base), key) != getattr(own, key) for key in keys):
                break
            alike = base
        return alike

    def names(self) -> set[tuple[str, str]]:
        """Return section and name of everything that a table or a row names and that becomes part of a path."""
        rows = [row for table in self.tables.values() for row in table.rows]
        features = {("features", name) for row in rows for name in self.feature_names(row.features)}
        parts = {("datasets", row.dataset) for row in rows} | {("subsets", row.subset) for row in rows} | features
        return parts | set(self._variants) | {("tables", file_name(name)) for name in self.tables}

    def datasets(self) -> list[str]:
        """Return the names of the data sets in use."""
        return sorted({run.dataset for run in self.scored()})

    def recipe(self, name: str) -> Recipe:
        """Return a recipe by name."""
        recipe: Recipe = self.get("recipes", name)
        return recipe


def file_name(table_id: str) -> str:
    """Return what the files of a table are called: ``xlan_t3`` for ``xlan/t3``."""
    return table_id.replace("/", "_")


def _titles(params: Path) -> Titles:
    """Read what data sets and features are called; a folder of parameters may do without."""
    path = params / "titles.yaml"
    titles: Titles = validate(Titles, read_mapping(path) if path.exists() else {}, str(path))
    return titles
