"""Refuses a row whose parts do not go together, before anything is trained or fetched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from recap.core.errors import ConfigError
from recap.plan.scaling import PlannedRow
from recap.settings.base import HUB
from recap.settings.datasets import PicturesAlone, VocabularyRule
from recap.settings.features import FEATURES
from recap.settings.metrics import METRICS
from recap.settings.models import LANGUAGE_MODEL, SHARED_SIZES

Get = Callable[[str, str], Any]  # section and name of a parameter file -> its config object


def check_row(row: PlannedRow, who: str, get: Get) -> None:
    """Check that data set, subset, features, model and recipe of a row fit one another.

    Args:
        row: the row.
        who: row and table, for the sentence.
        get: returns what the row names.
    """
    if row.stage == "scst" and get("recipes", row.recipe.name).scst is None:
        raise ConfigError(f"{who} asks for stage scst, but recipe {row.recipe.name!r} has none")
    _check_references(row, who, get)
    _check_language_model(row, who, get)
    _check_boxes(row, get)
    _check_products(row, who, get)
    _check_subset(row, who, get)
    _check_vectors(row, who, get)


def _check_references(row: PlannedRow, who: str, get: Get) -> None:
    """Refuse pictures without captions, on which nothing is trained or scored."""
    if isinstance(get("datasets", row.dataset), PicturesAlone):
        raise ConfigError(
            f"{who}: data set {row.dataset!r} has pictures without captions; name one with captions, and this one "
            "under the key `server` of the table"
        )


def _check_language_model(row: PlannedRow, who: str, get: Get) -> None:
    """Refuse pretrained weights that the row's model cannot begin with."""
    model = get("models", row.model.name)
    source = model.pretrained_weights() or ""
    words = isinstance(get("datasets", row.dataset).vocabulary, VocabularyRule)
    if source.startswith(HUB) and words:
        raise ConfigError(
            f"{who}: weights {source!r} go with GPT-2's byte pairs, but data set {row.dataset!r} has words; "
            "name one with `vocabulary: {kind: bpe, ...}`, or a scale that has a language model"
        )
    if not source.startswith(LANGUAGE_MODEL):
        return
    name = source.removeprefix(LANGUAGE_MODEL)
    settings = get("language_models", name)
    for key in SHARED_SIZES:
        ours, theirs = getattr(model, key), getattr(settings, key)
        if ours != theirs:
            raise ConfigError(f"{who}: the model has {key} {ours}, language model {name!r} {theirs}; make them equal")
    for key, most in (("decoder_layers", settings.layers), ("positions", settings.positions)):
        if getattr(model, key) > most:
            raise ConfigError(
                f"{who}: the model has {key} {getattr(model, key)}, language model {name!r} only {most}; lower it"
            )


def _check_boxes(row: PlannedRow, get: Get) -> None:
    """Refuse features that cut out the boxes of others which have none."""
    for name in row.features:
        boxes = get("features", name).boxes_from()
        if boxes is not None and not get("features", boxes).has_boxes:
            known = FEATURES.classes().items()
            kinds = " or ".join(kind for kind, settings in known if getattr(settings, "has_boxes", False))
            raise ConfigError(f"features/{name}.yaml: {boxes!r} has no boxes; name features of kind {kinds}")


def _check_products(row: PlannedRow, who: str, get: Get) -> None:
    """Refuse what reads files beside the corpus that the data set has not."""
    products = get("datasets", row.dataset).products
    for name in row.features:
        missing = [product for product in get("features", name).products() if product not in products]
        if missing:
            raise ConfigError(
                f"{who}: features {name!r} read {missing[0]}, and data set {row.dataset!r} has none; name "
                "other features"
            )
    for metric in get("recipes", row.recipe.name).evaluation.metrics:
        missing = [name for name in METRICS.get(metric).products if name not in products]
        if missing:
            raise ConfigError(
                f"{who}: recipe {row.recipe.name!r} asks for the metric {metric!r}, which reads {missing[0]}, "
                f"and data set {row.dataset!r} has none; take it out of evaluation.metrics"
            )


def _check_subset(row: PlannedRow, who: str, get: Get) -> None:
    """Refuse features that have seen captions which a row on part of the data is not to see."""
    tuned = [name for name in row.features if get("features", name).trained_on() == "captions"]
    if tuned and get("subsets", row.subset).fraction < 1:
        raise ConfigError(
            f"{who}: features {tuned[0]!r} are tuned on all training captions, and subset {row.subset!r} "
            "keeps most of them from the model; name features without `word_tuning`"
        )


def _check_vectors(row: PlannedRow, who: str, get: Get) -> None:
    """Refuse a model that would leave out vectors of every image: cells of a grid, or a study's second view."""
    limit, name = get("models", row.model.name).vector_limit, row.features[0]
    per_picture = get("features", name).vectors_per_picture()
    if limit is None or per_picture is None:
        return
    vectors = per_picture * get("datasets", row.dataset).pictures_per_image()
    if vectors > limit:
        raise ConfigError(f"{who}: features {name!r}: {too_many_vectors(vectors, limit)}")


def too_many_vectors(vectors: int, limit: int) -> str:
    """Return the end of the sentence that refuses a limit which no image keeps."""
    return (
        f"every image has {vectors} vectors, and the model would read only the first {limit} of each; set its "
        "max_vectors to null, which reads all"
    )
