"""Whether data set, features, model and recipe of a row go together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from recap.core.errors import ConfigError
from recap.plan.named_settings import NamedSettings
from recap.plan.scaling import ScaledRow
from recap.settings.base import HUB
from recap.settings.datasets import PicturesAlone, VocabularyRule
from recap.settings.features import FEATURES, GridFeatures
from recap.settings.metrics import METRICS
from recap.settings.models import LANGUAGE_MODEL, SHARED_SIZES


def check_row(row: ScaledRow, settings: NamedSettings) -> None:
    """Refuse a row whose data set, subset, features, model and recipe do not go together."""
    dataset = settings.dataset(row.dataset)
    recipe = settings.recipe(row.recipe.name)
    if row.stage == "scst" and recipe.scst is None:
        raise ConfigError(
            f"recipe {row.recipe.name!r} has no stage scst; take stage xe, or another recipe"
        )
    if isinstance(dataset, PicturesAlone):
        raise ConfigError(
            f"data set {row.dataset!r} has no captions; name it only under the table's key `server`"
        )
    _check_weights(row, settings)
    for name in row.features:
        _check_features(name, row.dataset, settings)
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
    limit = settings.model(row.model.name).vector_limit
    of_picture = settings.features(row.features[0]).vectors_per_picture() or 0
    vectors = of_picture * dataset.pictures_per_image()
    if limit is not None and vectors > limit:
        raise ConfigError(f"features {row.features[0]!r}: {too_many_vectors(vectors, limit)}")


def _lacking(products: Iterable[str], dataset: Any) -> str | None:
    """Return the first product that a data set does not have."""
    return next((product for product in products if product not in dataset.products), None)


def _check_features(name: str, dataset: str, settings: NamedSettings) -> None:
    """Refuse features that cannot be made of a data set."""
    features = settings.features(name)
    boxes = features.input_features().get("boxes")
    if boxes is not None and not settings.features(boxes).has_boxes:
        classes = FEATURES.classes().items()
        kinds = [kind for kind, each in classes if getattr(each, "has_boxes", False)]
        raise ConfigError(
            f"features/{name}.yaml: {boxes!r} has no boxes; name some of kind {' or '.join(kinds)}"
        )
    if lacking := _lacking(features.products(), settings.dataset(dataset)):
        reading = f"features {name!r} read {lacking}, and data set {dataset!r} has none"
        raise ConfigError(f"{reading}; name other features")


def _check_weights(row: ScaledRow, settings: NamedSettings) -> None:
    """Refuse pretrained weights that the row's model cannot begin with."""
    model = settings.model(row.model.name)
    source = model.pretrained_weights() or ""
    if source.startswith(HUB) and isinstance(
        settings.dataset(row.dataset).vocabulary, VocabularyRule
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
    weights = settings.language_model(name)
    for key in SHARED_SIZES:
        ours, theirs = getattr(model, key), getattr(weights, key)
        if ours != theirs:
            raise ConfigError(
                f"the model has {key} {ours}, language model {name!r} {theirs}; make them equal"
            )
    for key, most in (("decoder_layers", weights.layers), ("positions", weights.positions)):
        if (ours := getattr(model, key)) > most:
            raise ConfigError(
                f"the model has {key} {ours}, language model {name!r} only {most}; lower it"
            )


def check_test_pictures(settings: NamedSettings, dataset: str, features: Iterable[str]) -> None:
    """Refuse test pictures that have references, and features that cannot be made for them."""
    if not isinstance(settings.dataset(dataset), PicturesAlone):
        raise ConfigError(
            f"server.test: data set {dataset!r} has references; name one of kind coco_pictures"
        )
    for name in features:
        made = settings.features(name)
        standardized = isinstance(made, GridFeatures) and made.standardises()
        if standardized or made.trained_on_boxes() or made.products():
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
