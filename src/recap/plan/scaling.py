"""What a scale makes of the rows of a table: which are run, and with which files and changes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recap.core.errors import ConfigError, UnknownName, nearest
from recap.plan.named_settings import NamedSettings
from recap.plan.variants import Layer, Variant
from recap.settings import (
    NotRunRow,
    OutsideRow,
    QuotedRow,
    RowFile,
    Scale,
    Server,
    TableFile,
)
from recap.settings.models import MODELS
from recap.settings.params import files, label, load_named, merged, names
from recap.settings.profiles import ALL, Replacements


@dataclass(frozen=True)
class NamedScale:
    """A scale, and which of its files has which key; without a name, the tables as they are."""

    name: str | None = None  #: of its files
    settings: Scale = field(default_factory=lambda: Scale(paper=True))  #: of all of them
    files: dict[str, str] = field(default_factory=dict)  #: dotted key -> file

    def source(self, where: str, key: str) -> str:
        """Return file and key of a replacement in a layer (``""``, ``mine`` or ``mine/t3``)."""
        key = f"tables.{where}.{key}" if where else key
        *_, file = (file for each, file in self.files.items() if f"{each}.".startswith(f"{key}."))
        return f"{file}: {key}"


@dataclass(frozen=True)
class ScaledRow:
    """A row with a name for everything that it trains on."""

    dataset: str
    subset: str
    features: tuple[str, ...]
    model: Variant
    recipe: Variant
    stage: str


class Scaler:
    """Resolves the rows of one table, with what a scale replaces."""

    def __init__(self, settings: NamedSettings, table_id: str, scale: NamedScale) -> None:
        self.settings = settings
        self.params = settings.params
        self.table_id = table_id
        self.table: TableFile = settings.get("tables", table_id)
        self.scale = scale
        self.file = label(self.params, files(self.params, "tables", table_id)[0])
        self.layers: list[tuple[str, Replacements]] = scale.settings.layers(table_id)

    def rows(self) -> tuple[list[RowFile], list[QuotedRow], list[NotRunRow]]:
        """Return the rows run at this scale, those the paper quotes, and others of its own."""
        here = self.scale.name
        run: list[RowFile] = []
        quoted, not_run = list(self.table.quoted), list(self.table.not_run)
        for row in self.table.rows:
            check_scales(self.params, row.scales, f"{self.file}: row {row.id!r}")
            if row.scales is None or here in row.scales:
                run.append(row)
            elif any(self.settings.get("scales", name).paper for name in row.scales):
                at = f"at scale {here}" if here else "without a scale"
                not_run.append(NotRunRow(**_printed(row), reason=f"the row is not run {at}"))
            else:
                quoted.append(QuotedRow(**_printed(row)))
        if not run:
            raise ConfigError(
                f"{self.file}: no row is run at scale {here!r}; add it to the `scales` of one"
            )
        return run, quoted, not_run

    def outside_rows(self) -> tuple[list[OutsideRow], list[QuotedRow]]:
        """Return the rows whose captions are from a file,
        and those that are only quoted: the scale has other data."""
        baseline = next(row for row in self.table.rows if row.id == self.table.baseline)
        dataset = str(self._settings(baseline).get("dataset"))
        planned = self.replaced("datasets", dataset)
        scored = [row for row in self.table.outside if (row.dataset or dataset) == planned]
        others = [row for row in self.table.outside if row not in scored and row.printed]
        return scored, [QuotedRow(**_printed(row)) for row in others]

    def seeds(self) -> tuple[list[int], str | None]:
        """Return the scale's seeds with their source, or as many as the paper had."""
        for place, layer in reversed(self.layers):
            if layer.seeds is not None:
                return layer.seeds, self.scale.source(place, "seeds")
        return list(range(1, self.table.seeds + 1)), None

    def row(self, row: RowFile) -> ScaledRow:
        """Return a row resolved."""
        settings, where = self._settings(row), f"{self.file}: row {row.id!r}"
        for key in ("dataset", "features", "model", "recipe"):
            if key not in settings:
                raise ConfigError(f"{where}: the key {key!r} is missing; `defaults` lacks it, too")
        own = _as_list(settings["features"])
        features = tuple(self.replaced("features", name) for name in own)
        if len(set(features)) != len(features) or not features:
            at = f" at scale {self.scale.name!r}" if self.scale.name else ""
            become = f"features {', '.join(own)} become {', '.join(features)}{at}"
            raise ConfigError(f"{where}: {become}; name as many different ones")
        subset = self.replaced("subsets", settings.get("subset", "full"))
        model = self._model(where, settings["model"])
        recipe = self._recipe(where, settings["recipe"], subset)
        dataset = self.replaced("datasets", settings["dataset"])
        return ScaledRow(dataset, subset, features, model, recipe, settings.get("stage", "scst"))

    def test_pictures(self, row: RowFile, server: Server) -> tuple[str, tuple[str, ...]]:
        """Return the data set of the pictures that a server scores,
        and the features of theirs that a row reads."""
        own = [
            server.features.get(name, name) for name in _as_list(self._settings(row)["features"])
        ]
        return self.replaced("datasets", server.test), tuple(
            self.replaced("features", name) for name in own
        )

    def _settings(self, row: RowFile) -> dict[str, Any]:
        """Return the settings of a row over those of `defaults`."""
        return {
            **self.table.defaults.model_dump(exclude_none=True),
            **row.model_dump(exclude_none=True),
        }

    def replaced(self, section: str, name: str) -> str:
        """Return the replacement of a name.

        The most particular replacement wins, `*` is the last resort.
        """
        for _, layer in reversed(self.layers):
            replacements: dict[str, str] = getattr(layer, section)
            if name in replacements or ALL in replacements:
                return replacements.get(name, replacements.get(ALL, name))
        return name

    def _model(self, where: str, value: str | dict[str, Any]) -> Variant:
        """Return a model: its file, the scale's sizes for its kind, the row's changes."""
        base, changes = _base_and_changes(where, "models", value)
        layers: list[Layer] = []
        shown: dict[str, Any] = {}
        if any(layer.models for _, layer in self.layers):
            kinds = MODELS.lineage(type(load_named(self.params, "models", base)))
            for place, layer in self.layers:
                # A kind's sizes change those of the kinds that its class extends.
                for kind in reversed(kinds):
                    if kind not in layer.models:
                        continue
                    layers.append((self.scale.source(place, f"models.{kind}"), layer.models[kind]))
                    # Sizes of the whole scale are what every run of a profile has;
                    # those of one table tell runs apart.
                    if place:
                        shown = merged(shown, layer.models[kind])
            if not layers:
                file = f"{self.params.name}/<paper>/scales/{self.scale.name}.yaml"
                raise ConfigError(
                    f"{where}: there are no sizes of {kinds[0]!r}; add 'models.{kinds[0]}' to "
                    f"{file}"
                )
        layers += [(f"{where}: model", changes)] if changes else []
        return Variant("models", base, tuple(layers), merged(shown, changes))

    def _recipe(self, where: str, value: str | dict[str, Any], subset: str) -> Variant:
        """Return a recipe: its file or substitute, the latter's changes, the row's changes."""
        base, changes = _base_and_changes(where, "recipes", value)
        # The replacement for its subset comes before that for all names.
        keys = (("recipes", base), ("recipes_by_subset", subset), ("recipes", ALL))
        replacement, source = self._replacement(keys) or (base, "")
        base, scaled = _base_and_changes(where, "recipes", replacement)
        layers = [(source, scaled)] if scaled else []
        layers += [(f"{where}: recipe", changes)] if changes else []
        return Variant("recipes", base, tuple(layers), merged(scaled, changes))

    def _replacement(
        self, keys: Iterable[tuple[str, str]]
    ) -> tuple[str | dict[str, Any], str] | None:
        """Return what the most particular layer has under one of some keys, and its source."""
        for place, layer in reversed(self.layers):
            for section, key in keys:
                replacements: dict[str, str | dict[str, Any]] = getattr(layer, section)
                if key in replacements:
                    return replacements[key], self.scale.source(place, f"{section}.{key}")
        return None


def check_scales(params: Path, named: Iterable[str] | None, where: str) -> None:
    """Refuse a scale at which a row or a figure is made, but for which there is no file."""
    scales = names(params, "scales")
    for name in named or ():
        if name not in scales:
            raise UnknownName(f"{where}: scales: there is no {name!r}; {nearest(name, scales)}")


def _base_and_changes(
    where: str, section: str, value: str | dict[str, Any]
) -> tuple[str, dict[str, Any]]:
    """Return the base of what a row names, and what the row changes."""
    if isinstance(value, str):
        return value, {}
    if not isinstance(base := value.get("base"), str):
        key = f"{section.removesuffix('s')}.base"
        raise ConfigError(f"{where}: {key}: must be the name of a file of {section} (got {base!r})")
    return base, {key: item for key, item in value.items() if key != "base"}


def _printed(row: RowFile | OutsideRow) -> dict[str, Any]:
    return {key: getattr(row, key) for key in QuotedRow.model_fields}


def _as_list(value: str | list[str]) -> list[str]:
    return value if isinstance(value, list) else [value]
