"""What a store says of its extractor, and whether that is the one that the settings name."""

from __future__ import annotations

import json
from typing import Any

from recap.core.errors import FeatureError
from recap.core.hashing import value_hash
from recap.features.store import FeatureStore
from recap.settings.features import FeaturesConfig

CHANNEL_SCALE = "channel_scale"  # by what standardised channels were brought to one scale, which photos need as well


def describe(spec: FeaturesConfig, *, weights_sha256: str, made_with: str, **more: Any) -> dict[str, str]:
    """Return the attributes of a store: the settings without batch and shard sizes, and ``more`` of the extractor."""
    extractor = {**spec.identity(), **more}
    return {
        "extractor": json.dumps(extractor, sort_keys=True),
        "extractor_hash": value_hash(extractor),
        "weights_sha256": weights_sha256,
        "made_with": made_with,
    }


def check_extractor(store: FeatureStore, spec: FeaturesConfig) -> None:
    """Check that a store was made with these settings.

    Raises:
        FeatureError: names the first setting that differs.
    """
    found = json.loads(store.attributes["extractor"])
    for key, wanted in spec.identity().items():
        if found.get(key) != wanted:
            raise FeatureError(
                f"{store.path}: made by another extractor than the settings name: {key} is {found.get(key)!r} "
                f"instead of {wanted!r}; name its settings, or extract it again"
            )
