"""What a row of a table names, at its own scale or with what a scale puts in its place."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

from recap.core.errors import ConfigError, UnknownName, nearest
from recap.plan.variants import Layer, Variant
from recap.settings import NotRunRow, OutsideRow, QuotedRow, RowFile, Scale, Server, TableFile
from recap.settings.models import MODELS
from recap.settings.params import base_files, files, flat, label, load_named, merged, names
from recap.settings.profiles import ALL, Replacements


@dataclass(frozen=True)
class PlannedRow:
    """A row with a name for everything that it trains on."""

    dataset: str
    subset: str
    features: tuple[str, ...]
    model: Variant
    recipe: Variant
    stage: str


@dataclass(frozen=True)
class NamedScale:
    """A scale, and which of its files has which key."""

    name: str  #: of its files
    settings: Scale  #: of all of them
    files: dict[str, str]  #: dotted key -> file

    @classmethod
    def of(cls, params: Path, name: str, settings: Scale) -> NamedScale:
        """Return loaded settings with their files."""
        layers = base_files(params, "scales", name)
        return cls(name, settings, {key: file for file, values in layers for key in flat(values)})

    def source(self, where: str, key: str) -> str:
        """Return file and key of a replacement in a layer (``""``, ``mine`` or ``mine/t3``)."""
        key = f"tables.{where}.{key}" if where else key
        *_, file = (file for each, file in self.files.items() if f"{each}.".startswith(f"{key}."))
        return f"{file}: {key}"


class Scaler:
    """Resolves the rows of one table.

    Args:
        params: the folder ``params/``.
        table_id: ``mine/t3``.
        table: what its file says.
        scale: what replaces something; none: the table as it is.
    """

    def __init__(self, params: Path, table_id: str, table: TableFile, scale: NamedScale | None) -> None:
        self.params, self.table, self.scale = params, table, scale
        self.file = label(params, files(params, "tables", table_id)[0])
        self.layers: list[tuple[str, Replacements]] = scale.settings.layers(table_id) if scale else []

    def made_rows(self) -> tuple[list[RowFile], list[QuotedRow], list[NotRunRow]]:
        """Return the rows that are run at this scale, those that the paper quotes, and others of its own."""
        known = names(self.params, "scales")
        made: list[RowFile] = []
        quoted, own = list(self.table.quoted), list(self.table.not_run)
        for row in self.table.rows:
            for name in row.scales or []:
                if name not in known:
                    raise UnknownName(
                        f"{self.file}: row {row.id!r}: scales: there is no {name!r}; {nearest(name, known)}"
                    )
            if row.scales is None or (self.scale and self.scale.name in row.scales):
                made.append(row)
                continue
            printed = {key: getattr(row, key) for key in QuotedRow.model_fields}
            if any(load_named(self.params, "scales", name).paper for name in row.scales):
                own.append(NotRunRow(**printed, reason=f"the row is not run {self._at_scale()}"))
            else:
                quoted.append(QuotedRow(**printed))
        if not made:
            scale = self.scale.name if self.scale else None
            raise ConfigError(f"{self.file}: no row is run at scale {scale!r}; add it to the `scales` of one")
        return made, quoted, own

    def outside_rows(self) -> tuple[list[OutsideRow], list[QuotedRow]]:
        """Return the rows whose captions are from a file, and those that are only quoted: the scale has other data."""
        baseline = next(row for row in self.table.rows if row.id == self.table.baseline)
        named = str(self._said(baseline).get("dataset"))
        planned = self._replaced("datasets", named)
        made = [row for row in self.table.outside if (row.dataset or named) == planned]
        printed = [row for row in self.table.outside if row not in made and row.printed]
        return made, [QuotedRow(**{key: getattr(row, key) for key in QuotedRow.model_fields}) for row in printed]

    def _at_scale(self) -> str:
        return f"at scale {self.scale.name}" if self.scale else "without a scale"

    def seeds(self) -> list[int]:
        """Return the scale's seeds, or as many as the paper had."""
        replaced = [layer.seeds for _, layer in self.layers if layer.seeds is not None]
        return replaced[-1] if replaced else list(range(1, self.table.seeds + 1))

    def row(self, row: RowFile) -> PlannedRow:
        """Return a row resolved."""
        settings = self._said(row)
        for key in ("dataset", "features", "model", "recipe"):
            if key not in settings:
                raise ConfigError(f"{self.file}: row {row.id!r}: the key {key!r} is missing; `defaults` lacks it, too")
        named = _listed(settings["features"])
        features = tuple(self._replaced("features", name) for name in named)
        if len(set(features)) != len(features) or not features:
            raise ConfigError(
                f"{self.file}: row {row.id!r}: features {', '.join(named)} become {', '.join(features)}"
                f"{f' at scale {self.scale.name!r}' if self.scale else ''}; name as many different ones"
            )
        subset = self._replaced("subsets", settings.get("subset", "full"))
        return PlannedRow(
            dataset=self._replaced("datasets", settings["dataset"]),
            subset=subset,
            features=features,
            model=self._model(row.id, settings["model"]),
            recipe=self._recipe(row.id, settings["recipe"], subset),
            stage=settings.get("stage", "scst"),
        )

    def test_pictures(self, row: RowFile, server: Server) -> tuple[str, tuple[str, ...]]:
        """Return the data set of the pictures that a server scores, and the features of theirs that a row reads."""
        named = [server.features.get(name, name) for name in _listed(self._said(row)["features"])]
        return self.test_data(server), tuple(self._replaced("features", name) for name in named)

    def test_data(self, server: Server) -> str:
        """Return the data set of the pictures that a server scores."""
        return self._replaced("datasets", server.test)

    def _said(self, row: RowFile) -> dict[str, Any]:
        """Return what a row says, and what `defaults` say in its place."""
        return {**self.table.defaults.model_dump(exclude_none=True), **row.model_dump(exclude_none=True)}

    def _replaced(self, section: str, name: str) -> str:
        """Return the replacement of a name; the most particular replacement wins, `*` is the last resort."""
        for _, layer in reversed(self.layers):
            replacements: dict[str, str] = getattr(layer, section)
            if name in replacements or ALL in replacements:
                return replacements.get(name, replacements.get(ALL, name))
        return name

    def _replaced_recipe(self, name: str, subset: str) -> tuple[str | dict[str, Any], str]:
        """Return the replacement of a recipe, and file and key of it; that of its subset comes before `*`."""
        for where, layer in reversed(self.layers):
            for section, key in (("recipes", name), ("recipes_by_subset", subset), ("recipes", ALL)):
                replacements = getattr(layer, section)
                if key in replacements and self.scale:
                    return replacements[key], self.scale.source(where, f"{section}.{key}")
        return name, ""

    def _inline(self, row_id: str, section: str, value: str | dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return the base of what a row names, and what the row changes."""
        if isinstance(value, str):
            return value, {}
        changes = {key: item for key, item in value.items() if key != "base"}
        if not isinstance(value.get("base"), str):
            raise ConfigError(
                f"{self.file}: row {row_id!r}: {section.removesuffix('s')}.base: must be the name of a file of "
                f"{section} (got {value.get('base')!r})"
            )
        return value["base"], changes

    def _source(self, row_id: str, key: str) -> str:
        return f"{self.file}: row {row_id!r}: {key}"

    def _model(self, row_id: str, value: str | dict[str, Any]) -> Variant:
        """Return a model: its file, the scale's sizes for its kind, the row's changes.

        A kind without sizes takes those of the nearest kind that its class extends.
        """
        base, changes = self._inline(row_id, "models", value)
        layers: list[Layer] = []
        shown: dict[str, Any] = {}
        if self.scale and any(layer.models for _, layer in self.layers):
            kinds = MODELS.lineage(type(load_named(self.params, "models", base)))
            kind = next((kind for kind in kinds if any(kind in layer.models for _, layer in self.layers)), None)
            if kind is None:
                raise ConfigError(
                    f"scale {self.scale.name!r} has no sizes for models of kind {kinds[0]!r}; add the key "
                    f"'models.{kinds[0]}' in {self.params.name}/<paper>/scales/{self.scale.name}.yaml"
                )
            found = [(where, layer.models[kind]) for where, layer in self.layers if kind in layer.models]
            layers = [Layer(self.scale.source(where, f"models.{kind}"), sizes) for where, sizes in found]
            # Sizes of the whole scale are what every run of a profile has; those of one table tell runs apart.
            shown = reduce(merged, (sizes for where, sizes in found if where), shown)
        if changes:
            layers.append(Layer(self._source(row_id, "model"), changes))
        return Variant("models", base, tuple(layers), merged(shown, changes))

    def _recipe(self, row_id: str, value: str | dict[str, Any], subset: str) -> Variant:
        """Return a recipe: its file or the one in its place, the changes of that, the row's changes."""
        named, changes = self._inline(row_id, "recipes", value)
        replaced, source = self._replaced_recipe(named, subset)
        base, scaled = self._inline(row_id, "recipes", replaced)
        layers = [Layer(source, scaled)] if scaled else []
        if changes:
            layers.append(Layer(self._source(row_id, "recipe"), changes))
        return Variant("recipes", base, tuple(layers), merged(scaled, changes))


def _listed(names: str | list[str]) -> list[str]:
    return names if isinstance(names, list) else [names]
