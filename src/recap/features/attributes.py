"""What a store says of its extractor, and whether that is the one that the settings name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from recap.core import checksums
from recap.core.documents import write_json
from recap.core.errors import FeatureError
from recap.core.hashing import sha256_file, value_hash
from recap.features.store import FeatureStore
from recap.settings.features import FeaturesConfig

CHANNEL_SCALE = "channel_scale"  # by what standardized channels were brought to one scale, which photos need as well


def describe(spec: FeaturesConfig, *, weights_sha256: str, made_with: str, **more: Any) -> dict[str, str]:
    """Return the attributes of a store: the settings without batch and shard sizes, and ``more`` of the extractor."""
    extractor = {**spec.identity(), **more}
    return {
        "extractor": json.dumps(extractor, sort_keys=True),
        "extractor_hash": value_hash(extractor),
        "weights_sha256": weights_sha256,
        "made_with": made_with,
    }


def write_note(spec: FeaturesConfig, *, code: str, files: Sequence[Path], out: Path) -> None:
    """Write down what makes a store, whichever images it holds: settings, source, and the bytes of what is read.

    Neither places nor times: another clone writes the same note.
    """
    try:
        read = [_content(path) for path in files]
    except OSError as error:
        raise FeatureError(f"{error.filename}: cannot be read ({error.strerror}); correct the path") from error
    write_json(out, {"settings": spec.identity(), "code": code, "files": read})
    checksums.record(out)


def _content(path: Path) -> str:
    """Return a digest of a file's bytes, or of the names and sizes of all files in a folder."""
    if not path.is_dir():
        return sha256_file(path)
    files = (file for file in path.rglob("*") if file.is_file())
    return value_hash(sorted([file.relative_to(path).as_posix(), file.stat().st_size] for file in files))


def check_extractor(store: FeatureStore, spec: FeaturesConfig) -> None:
    """Check that a store was made with these settings."""
    found = json.loads(store.attributes["extractor"])
    for key, wanted in spec.identity().items():
        if found.get(key) != wanted:
            raise FeatureError(
                f"{store.path}: made by another extractor than the settings name: {key} is {found.get(key)!r} "
                f"instead of {wanted!r}; name its settings, or extract it again"
            )
