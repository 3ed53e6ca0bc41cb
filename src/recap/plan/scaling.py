"""From a row of a table to the files and changes that it trains with,
at its own scale or at one that replaces some.

A model or recipe is a variant: a file with its bases, what a scale replaces, what the row changes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from recap.core.errors import ConfigError, UnknownName, nearest
from recap.core.hashing import value_hash
from recap.settings import (
    SECTIONS,
    NotRunRow,
    OutsideRow,
    QuotedRow,
    RowFile,
    Scale,
    Server,
    TableFile,
)
from recap.settings.base import HUB
from recap.settings.datasets import PicturesAlone, VocabularyRule
from recap.settings.features import FEATURES, GridFeatures
from recap.settings.metrics import METRICS
from recap.settings.models import LANGUAGE_MODEL, MODELS, SHARED_SIZES
from recap.settings.params import (
    base_files,
    files,
    flat,
    label,
    load_named,
    merged,
    names,
    validate,
)
from recap.settings.profiles import ALL, Replacements

# bytes of a name; a model and a recipe make up one component of a path, of which Linux allows 255
LONGEST = 100
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")

Get = Callable[[str, str], Any]  # section and name of a parameter file -> its config object
Sourced = dict[str, tuple[Any, str]]  # dotted key -> value and source
# a source, and its values, which override those of the layers below
Layer = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Variant:
    """A parameter file with changes."""

    section: str  #: of ``params/``
    base: str  #: name of the file
    changes: tuple[Layer, ...] = ()  #: layers over the file, from general to particular
    shown: dict[str, Any] = field(default_factory=dict)  #: what the name says beside the base

    @property
    def name(self) -> str:
        """``base+key=value,key=value`` of characters that paths bear.

        Long or rewritten ones end with a hash.
        """
        if not self.shown:
            return self.base
        texts = {key: _text(value) for key, value in sorted(flat(self.shown).items())}
        name = f"{self.base}+{','.join(f'{key}={text}' for key, (text, _) in texts.items())}"
        if all(exact for _, exact in texts.values()) and len(name.encode()) <= LONGEST:
            return name
        digest = value_hash(self.shown)[:8]
        head = name.encode()[: LONGEST - len(digest) - 1].decode(errors="ignore")
        whole = head if head == name else head.rpartition(",")[0] or head.rpartition("+")[0]
        return f"{whole}+{digest}"

    def layers(self, params: Path) -> list[Layer]:
        """Return everything that is laid over one another, the lowest base first."""
        return [*base_files(params, self.section, self.base), *self.changes]

    def load(self, params: Path) -> Any:
        """Return the config object; an error names the lowest layer that is refused."""
        layers = self.layers(params)
        try:
            return self._validated(layers)
        except ConfigError:
            for end in range(len(layers) - len(self.changes), len(layers)):
                self._validated(layers[:end])
            raise

    def _validated(self, layers: list[Layer]) -> Any:
        values: dict[str, Any] = {}
        for _, changes in layers:
            values = merged(values, changes)
        return validate(SECTIONS[self.section], values, layers[-1][0])

    def with_sources(self, params: Path) -> Sourced:
        """Return each value by key (``xe.epochs``) with its source: file, scale, row, default."""
        values: dict[str, Any] = {}
        sources: dict[str, str] = {}
        for source, changes in self.layers(params):
            values, own = merged(values, changes), flat(changes)
            sources = {key: source if key in own else sources[key] for key in flat(values)}
        settings = _every_setting(self.load(params))
        return {
            key: (value, _source(key, sources) or f"default ({where})")
            for key, (value, where) in settings.items()
        }


def _source(key: str, sources: dict[str, str]) -> str | None:
    """Return the source of a key or of what holds it; None for a default."""
    place = key
    while place and place not in sources:
        place = place.rpartition(".")[0]
    # a rate beside its schedule counts as within it
    if not place and key.endswith(".schedule.learning_rate"):
        return _source(key.replace(".schedule.", "."), sources)
    return sources.get(place)


def _every_setting(config: BaseModel) -> dict[str, tuple[Any, str]]:
    """Return each value as plain JSON by its key, with the module of its default.

    Also what specs leave out then.
    """
    settings: dict[str, tuple[Any, str]] = {}
    for name, info in type(config).model_fields.items():
        value = getattr(config, name)
        if info.exclude:  # a note, or another spelling of a key that is here
            continue
        if isinstance(value, BaseModel):
            settings |= {f"{name}.{key}": setting for key, setting in _every_setting(value).items()}
        else:
            module = next(
                kind.__module__ for kind in type(config).__mro__ if name in kind.__annotations__
            )
            settings |= {
                key: (leaf, module) for key, leaf in flat({name: to_jsonable_python(value)}).items()
            }
    return settings


def _text(value: Any) -> tuple[str, bool]:
    """Return a value in characters that a path bears, and whether nothing was lost."""
    if isinstance(value, list):
        return "_".join(_text(item)[0] for item in value), all(
            isinstance(item, int | float) for item in value
        )
    text = (
        {None: "null", True: "true", False: "false"}[value]
        if isinstance(value, bool | None)
        else str(value)
    )
    safe = _UNSAFE.sub("-", text)
    return safe, safe == text and not isinstance(value, dict)


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
class PlannedRow:
    """A row with a name for everything that it trains on."""

    dataset: str
    subset: str
    features: tuple[str, ...]
    model: Variant
    recipe: Variant
    stage: str


class Scaler:
    """Resolves the rows of one table, with what a scale replaces."""

    def __init__(self, params: Path, table_id: str, table: TableFile, scale: NamedScale) -> None:
        self.params, self.table, self.scale = params, table, scale
        self.file = label(params, files(params, "tables", table_id)[0])
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
            elif any(load_named(self.params, "scales", name).paper for name in row.scales):
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

    def row(self, row: RowFile) -> PlannedRow:
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
        return PlannedRow(dataset, subset, features, model, recipe, settings.get("stage", "scst"))

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


def check_row(row: PlannedRow, get: Get) -> None:
    """Refuse a row whose data set, subset, features, model and recipe do not go together."""
    dataset, recipe = get("datasets", row.dataset), get("recipes", row.recipe.name)
    if row.stage == "scst" and recipe.scst is None:
        raise ConfigError(
            f"recipe {row.recipe.name!r} has no stage scst; take stage xe, or another recipe"
        )
    if isinstance(dataset, PicturesAlone):
        raise ConfigError(
            f"data set {row.dataset!r} has no captions; name it only under the table's key `server`"
        )
    _check_weights(row, get)
    for name in row.features:
        _check_features(name, row.dataset, get)
    for metric in recipe.evaluation.metrics:
        if lacking := _lacking(METRICS.get(metric).products, dataset):
            asks = (
                f"recipe {row.recipe.name!r} asks for the metric {metric!r}, which reads {lacking}"
            )
            raise ConfigError(
                f"{asks}, and data set {row.dataset!r} has none; take it out of evaluation.metrics"
            )
    # A model that would leave out vectors of every image:
    # cells of a grid, or a study's second view.
    limit = get("models", row.model.name).vector_limit
    of_picture = get("features", row.features[0]).vectors_per_picture() or 0
    vectors = of_picture * dataset.pictures_per_image()
    if limit is not None and vectors > limit:
        raise ConfigError(f"features {row.features[0]!r}: {too_many_vectors(vectors, limit)}")


def _lacking(products: Iterable[str], dataset: Any) -> str | None:
    """Return the first product that a data set does not have."""
    return next((product for product in products if product not in dataset.products), None)


def _check_features(name: str, dataset: str, get: Get) -> None:
    """Refuse features that cannot be made of a data set."""
    features = get("features", name)
    boxes = features.input_features().get("boxes")
    if boxes is not None and not get("features", boxes).has_boxes:
        classes = FEATURES.classes().items()
        kinds = [kind for kind, each in classes if getattr(each, "has_boxes", False)]
        raise ConfigError(
            f"features/{name}.yaml: {boxes!r} has no boxes; name some of kind {' or '.join(kinds)}"
        )
    if lacking := _lacking(features.products(), get("datasets", dataset)):
        reading = f"features {name!r} read {lacking}, and data set {dataset!r} has none"
        raise ConfigError(f"{reading}; name other features")


def _check_weights(row: PlannedRow, get: Get) -> None:
    """Refuse pretrained weights that the row's model cannot begin with."""
    model = get("models", row.model.name)
    source = model.pretrained_weights() or ""
    if source.startswith(HUB) and isinstance(
        get("datasets", row.dataset).vocabulary, VocabularyRule
    ):
        pairs = (
            f"weights {source!r} go with GPT-2's byte pairs, but data set {row.dataset!r} has words"
        )
        raise ConfigError(
            f"{pairs}; name one with `vocabulary: {{kind: bpe, ...}}`, or another scale"
        )
    if not source.startswith(LANGUAGE_MODEL):
        return
    name = source.removeprefix(LANGUAGE_MODEL)
    settings = get("language_models", name)
    for key in SHARED_SIZES:
        ours, theirs = getattr(model, key), getattr(settings, key)
        if ours != theirs:
            raise ConfigError(
                f"the model has {key} {ours}, language model {name!r} {theirs}; make them equal"
            )
    for key, most in (("decoder_layers", settings.layers), ("positions", settings.positions)):
        if (ours := getattr(model, key)) > most:
            raise ConfigError(
                f"the model has {key} {ours}, language model {name!r} only {most}; lower it"
            )


def check_test_pictures(get: Get, dataset: str, features: Iterable[str]) -> None:
    """Refuse test pictures that have references, and features that cannot be made for them."""
    if not isinstance(get("datasets", dataset), PicturesAlone):
        raise ConfigError(
            f"server.test: data set {dataset!r} has references; name one of kind coco_pictures"
        )
    for name in features:
        settings = get("features", name)
        standardized = isinstance(settings, GridFeatures) and settings.standardises()
        if standardized or settings.trained_on_boxes() or settings.products():
            why = (
                f"server: features {name!r} are made from training data, and data set {dataset!r} "
                "has none"
            )
            raise ConfigError(f"{why}; name others, or give the row's reason under server.not_sent")


def too_many_vectors(vectors: int, limit: int) -> str:
    """Return the end of the sentence that refuses a limit which no image keeps."""
    return (
        f"every image has {vectors} vectors, and the model would read only the first {limit} of "
        "each; set its max_vectors to null, which reads all"
    )
