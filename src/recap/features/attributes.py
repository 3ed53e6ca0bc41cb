"""What a store says of its extractor, and whether that is the one that the settings name."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel

from recap.core.errors import FeatureError
from recap.core.hashing import value_hash
from recap.features.store import FeatureStore

# What an extractor works with, but does not define it.
_HOW = {"batch_size", "shard_size"}


def describe(spec: BaseModel, *, weights_sha256: str, made_with: str, **more: Any) -> dict[str, str]:
    """Return the attributes of a store: the settings without batch and shard sizes, and ``more`` of the extractor."""
    extractor = {**_defining(spec), **more}
    return {
        "extractor": json.dumps(extractor, sort_keys=True),
        "extractor_hash": value_hash(extractor),
        "weights_sha256": weights_sha256,
        "made_with": made_with,
    }


def check_extractor(store: FeatureStore, spec: BaseModel) -> None:
    """Check that a store was made with these settings.

    Raises:
        FeatureError: names the first setting that differs.
    """
    found = json.loads(store.attributes["extractor"])
    for key, wanted in _defining(spec).items():
        if found.get(key) != wanted:
            raise FeatureError(
                f"{store.path}: made by another extractor than the settings name: {key} is {found.get(key)!r} "
                f"instead of {wanted!r}; name its settings, or extract it again"
            )


def _defining(spec: BaseModel) -> dict[str, Any]:
    return spec.model_dump(mode="json", exclude=_HOW)
