"""What a store says of its extractor and holds, and whether that is what the settings name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from recap.core import checksums
from recap.core.documents import write_json
from recap.core.errors import FeatureError
from recap.core.files import reading
from recap.core.hashing import sha256_file, value_hash
from recap.features.records import VALUES
from recap.features.store import FeatureStore
from recap.settings.features import Features, FeaturesConfig

CHANNEL_SCALE = "channel_scale"  # by what standardized channels were brought to one scale, which photos need as well
_SAMPLE = 64  # images whose numbers are described


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
    """Check that a store was made with these settings."""
    extractor = json.loads(store.attributes["extractor"])
    for key, wanted in spec.identity().items():
        if extractor.get(key) != wanted:
            raise FeatureError(
                f"{store.path}: made by another extractor than the settings name: {key} is {extractor.get(key)!r} "
                f"instead of {wanted!r}; name its settings, or extract it again"
            )


def write_note(spec: Features, *, code: str, files: Sequence[Path], out: Path) -> None:
    """Write down what makes a store, whichever images it holds: settings, source, and the bytes of what is read.

    Neither places nor times: another clone writes the same note.
    """
    digests = []  # of a folder, of the names and sizes of its files
    for path in files:
        with reading(path, FeatureError, missing="correct the path"):
            inside = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else []
            sizes = sorted([file.relative_to(path).as_posix(), file.stat().st_size] for file in inside)
            digests.append(value_hash(sizes) if path.is_dir() else sha256_file(path))
    write_json(out, {"settings": spec.identity(), "code": code, "files": digests})
    checksums.record(out)


def info(file: str | Path, *, spec: FeaturesConfig | None = None) -> str:
    """Return a description of a store for people, after checking its content; ``spec``: what must have made it."""
    store = FeatureStore(file)
    if spec is not None:
        check_extractor(store, spec)
    store.verify()
    ids = store.ids.tolist()
    sample = store.ids[np.linspace(0, len(ids) - 1, min(_SAMPLE, len(ids))).astype(int)].tolist()
    lines = {
        "store": f"{store.path} ({Path(file).stat().st_size / 2**20:.1f} MiB, checksum verified)",
        "images": f"{len(ids)}, ids {ids[0]} to {ids[-1]}",
        **{stream: _stream(store, stream, sample) for stream in store.streams},
        "extractor": store.attributes["extractor"],
        "weights": f"sha256 {store.attributes['weights_sha256']}",
        "made with": store.attributes["made_with"],
        "hash": store.feature_hash,
    }
    return "\n".join(f"{name:10s} {value}" for name, value in lines.items())


def _stream(store: FeatureStore, stream: str, sample: list[int]) -> str:
    """Describe one stream; what its numbers are like, from some images."""
    counts = store.rows(store.ids.tolist(), stream)
    values, mask = store.read(sample, stream)
    real, dtype = values[mask], store.arrays[f"{stream}/{VALUES}"].row.base.name
    dead = (real.std(0) < 1e-6).float().mean()
    columns = "".join(f", with {', '.join(names)}" for names in [store.columns(stream)] if names)
    return (
        f"{counts.min()} to {counts.max()} vectors per image, {real.shape[1]} long, {dtype}{columns}; mean "
        f"{real.mean():.4g}, sd {real.std():.4g}, largest {real.abs().max():.4g}, "
        f"{100 * (real == 0).float().mean():.1f} % zeros, {100 * dead:.1f} % dead channels (in {len(sample)} images)"
    )
