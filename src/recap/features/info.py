"""What a feature store holds, in words."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from recap.features.attributes import check_extractor
from recap.features.store import FeatureStore
from recap.settings.features import FeaturesConfig

_SAMPLE = 64


def info(path: str | Path, *, spec: FeaturesConfig | None = None) -> str:
    """Return a description of a feature store for people, after checking its content against its checksums.

    Args:
        path: the store.
        spec: settings that it must have been made with.
    """
    store = FeatureStore(path)
    if spec is not None:
        check_extractor(store, spec)
    store.verify()
    ids = store.ids.tolist()
    sample = store.ids[np.linspace(0, len(ids) - 1, min(_SAMPLE, len(ids))).astype(int)].tolist()
    lines = {
        "store": f"{store.path} ({Path(path).stat().st_size / 2**20:.1f} MiB, checksum verified)",
        "images": f"{len(ids)}, ids {ids[0]} to {ids[-1]}",
    }
    for stream in store.streams:
        lines[stream] = _stream(store, stream, sample)
    lines |= {
        "extractor": json.dumps(json.loads(store.attributes["extractor"]), sort_keys=True),
        "weights": f"sha256 {store.attributes['weights_sha256']}",
        "made with": store.attributes["made_with"],
        "hash": store.feature_hash,
    }
    return "\n".join(f"{name:10s} {value}" for name, value in lines.items())


def _stream(store: FeatureStore, stream: str, sample: list[int]) -> str:
    """Describe one stream; what its numbers are like, from some images."""
    counts = store.rows(store.ids.tolist(), stream)
    values, mask = store.read(sample, stream)
    real = values[mask]
    dead = (real.std(0) < 1e-6).float().mean()
    beside = ", ".join(store.columns(stream))
    return (
        f"{counts.min()} to {counts.max()} vectors per image, {real.shape[1]} long, {store.dtype(stream)}"
        f"{', with ' + beside if beside else ''}; mean {real.mean():.4g}, sd {real.std():.4g}, largest "
        f"{real.abs().max():.4g}, {100 * (real == 0).float().mean():.1f} % zeros, {100 * dead:.1f} % dead channels "
        f"(in {len(sample)} images)"
    )
