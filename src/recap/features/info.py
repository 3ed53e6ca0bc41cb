"""What a feature store holds, in words."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from recap.features.store import FeatureStore

_SAMPLE = 64


def info(path: str | Path) -> str:
    """Return a description of a feature store for people, after checking its content against its checksum.

    Raises:
        FeatureError: the file is missing, truncated, damaged or no feature store.
    """
    store = FeatureStore(path)
    store.verify()
    ids = store.ids.tolist()
    counts = store.rows(ids)
    sample = store.ids[np.linspace(0, len(ids) - 1, min(_SAMPLE, len(ids))).astype(int)].tolist()
    values, mask = store.read(sample)
    real = values[mask]
    dead = (real.std(0) < 1e-6).float().mean()
    lines = {
        "store": f"{store.path} ({Path(path).stat().st_size / 2**20:.1f} MiB, checksum verified)",
        "images": f"{len(ids)}, ids {ids[0]} to {ids[-1]}",
        "vectors": f"{counts.min()} to {counts.max()} an image, {store.dim} long, {store.attributes['dtype']}",
        "values": f"mean {real.mean():.4g}, sd {real.std():.4g}, largest {real.abs().max():.4g}, "
        f"{100 * (real == 0).float().mean():.1f} % zeros, {100 * dead:.1f} % dead channels "
        f"(in {len(sample)} images)",
        "extractor": json.dumps(json.loads(store.attributes["extractor"]), sort_keys=True),
        "weights": f"sha256 {store.attributes['weights_sha256']}",
        "made with": store.attributes["made_with"],
        "hash": store.feature_hash,
    }
    return "\n".join(f"{name:10s} {value}" for name, value in lines.items())
