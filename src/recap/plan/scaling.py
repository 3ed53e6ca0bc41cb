"""What a row of a table names, at its own scale or with what a scale puts in its place."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

from recap.core.errors import ConfigError, nearest
from recap.plan.variants import Layer, Variant
from recap.settings import QuotedRow, RowFile, Scale, TableFile
from recap.settings.models import MODELS
from recap.settings.params import load_named, merged, names
from recap.settings.scales import ALL, Replacements


@dataclass(frozen=True)
class PlannedRow:
    """A row with a name for everything that it trains on."""

    dataset: str
    subset: str
    features: tuple[str, ...]
    model: Variant
    recipe: Variant
    stage: str


class Scaler:
    """Resolves the rows of one table.

    Args:
        params: the folder ``params/``.
        table_id: ``xlan/t3``.
        table: what its file says.
        scale: what replaces something, with its name; none: the table as it is.
    """

    def __init__(self, params: Path, table_id: str, table: TableFile, scale: tuple[str, Scale] | None) -> None:
        self.params, self.table = params, table
        self.file = f"{params.name}/tables/{table_id}.yaml"
        self.scale_file = f"{params.name}/scales/{scale[0]}.yaml" if scale else ""
        self.scale = scale[0] if scale else None
        self.layers: list[tuple[str, Replacements]] = scale[1].layers(table_id) if scale else []

    def made_rows(self) -> tuple[list[RowFile], list[QuotedRow]]:
        """Return the rows that are run at this scale, and those that are quoted: the paper's, then the others.

        Raises:
            ConfigError: a row names a scale that there is not.
        """
        known = names(self.params, "scales")
        made, quoted = [], []
        for row in self.table.rows:
            for name in row.scales or []:
                if name not in known:
                    raise ConfigError(
                        f"{self.file}: row {row.id!r}: scales: there is no {name!r}; {nearest(name, known)}"
                    )
            if row.scales is None or self.scale in row.scales:
                made.append(row)
            else:
                quoted.append(QuotedRow(id=row.id, label=row.label, printed=row.printed))
        if not made:
            raise ConfigError(f"{self.file}: no row is run at scale {self.scale!r}; add it to the `scales` of one")
        return made, [*self.table.quoted, *quoted]

    def seeds(self) -> list[int]:
        """Return the scale's seeds, or as many as the paper had."""
        replaced = [layer.seeds for _, layer in self.layers if layer.seeds is not None]
        return replaced[-1] if replaced else list(range(1, self.table.seeds + 1))

    def row(self, row: RowFile) -> PlannedRow:
        """Return a row resolved.

        Raises:
            ConfigError: it lacks a key, or names what there is not.
        """
        said = {**self.table.defaults.model_dump(exclude_none=True), **row.model_dump(exclude_none=True)}
        for key in ("dataset", "features", "model", "recipe"):
            if key not in said:
                raise ConfigError(f"{self.file}: row {row.id!r}: the key {key!r} is missing; `defaults` lacks it, too")
        named = said["features"] if isinstance(said["features"], list) else [said["features"]]
        features = tuple(self._replaced("features", name) for name in named)
        if len(set(features)) != len(features) or not features:
            raise ConfigError(
                f"{self.scale_file or self.file}: row {row.id!r}: features {', '.join(named)} become "
                f"{', '.join(features)}; name as many different ones"
            )
        return PlannedRow(
            dataset=self._replaced("datasets", said["dataset"]),
            subset=self._replaced("subsets", said.get("subset", "full")),
            features=features,
            model=self._model(row.id, said["model"]),
            recipe=self._recipe(row.id, said["recipe"]),
            stage=said.get("stage", "scst"),
        )

    def _replaced(self, section: str, name: str) -> Any:
        """Return the replacement of a name; the most particular replacement wins, `*` is the last resort."""
        for _, layer in reversed(self.layers):
            names = getattr(layer, section)
            if name in names or ALL in names:
                return names.get(name, names.get(ALL))
        return name

    def _inline(self, row_id: str, section: str, value: str | dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return the base of what a row names, and what the row changes."""
        if isinstance(value, str):
            return value, {}
        changes = {key: item for key, item in value.items() if key != "base"}
        if not isinstance(value.get("base"), str):
            raise ConfigError(
                f"{self.file}: row {row_id!r}: {section.removesuffix('s')}.base: must be the name of a file in "
                f"{self.params.name}/{section} (got {value.get('base')!r})"
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
        if any(layer.models for _, layer in self.layers):
            kinds = MODELS.lineage(type(load_named(self.params, "models", base)))
            kind = next((kind for kind in kinds if any(kind in layer.models for _, layer in self.layers)), None)
            if kind is None:
                raise ConfigError(
                    f"{self.scale_file}: models: there are no sizes for kind {kinds[0]!r}; add a key for it"
                )
            found = [(where, layer.models[kind]) for where, layer in self.layers if kind in layer.models]
            layers = [Layer(f"{self.scale_file}: {layer_key(where)}models.{kind}", sizes) for where, sizes in found]
            # Sizes of the whole scale are what every run of a profile has; those of one table tell runs apart.
            shown = reduce(merged, (sizes for where, sizes in found if where), shown)
        if changes:
            layers.append(Layer(self._source(row_id, "model"), changes))
        return Variant("models", base, tuple(layers), merged(shown, changes))

    def _recipe(self, row_id: str, value: str | dict[str, Any]) -> Variant:
        """Return a recipe: its file or the one in its place, the changes of that, the row's changes."""
        named, changes = self._inline(row_id, "recipes", value)
        replaced = self._replaced("recipes", named)
        base, scaled = self._inline(row_id, "recipes", replaced)
        layers = [Layer(f"{self.scale_file}: recipes.{named}", scaled)] if scaled else []
        if changes:
            layers.append(Layer(self._source(row_id, "recipe"), changes))
        return Variant("recipes", base, tuple(layers), merged(scaled, changes))


def layer_key(where: str) -> str:
    """Return the beginning of the keys of a layer of replacements."""
    return f"tables.{where}." if where else ""
