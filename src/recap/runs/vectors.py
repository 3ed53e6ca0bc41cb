"""Whether a model reads all vectors of a feature store."""

from __future__ import annotations

from pathlib import Path

from recap.core.errors import ConfigError
from recap.core.log import log
from recap.features.store import FeatureStore
from recap.plan.scaling import too_many_vectors
from recap.settings import ModelConfig


def check_vectors(model: ModelConfig, store: Path) -> None:
    """Compare a model's `max_vectors` with the main stream of the store that it is trained on.

    Where images differ in their number of vectors, as with regions, the limit holds and a message says for how many
    images. Where all images have the same number, every one would lose the same part: cells of a grid, or a view.
    """
    limit = model.vector_limit
    if limit is None:
        return
    opened = FeatureStore(store)
    vectors = opened.rows(opened.ids.tolist())
    most, above = int(vectors.max()), int((vectors > limit).sum())
    if above and int(vectors.min()) == most:
        raise ConfigError(f"{store}: {too_many_vectors(most, limit)}")
    if above:
        log.info(
            f"{store}: {above:,} of {len(vectors):,} images have more than {limit} vectors (up to {most}); the model "
            f"reads the first {limit}, as its max_vectors says"
        )
