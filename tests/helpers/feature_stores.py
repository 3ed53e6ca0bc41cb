"""Small feature stores: of random numbers, or of what a test computes for each image."""

import numpy as np

from recap.features.records import ImageFeatures
from recap.features.write import build_store

ABOUT = {
    "extractor": "{}",
    "extractor_hash": "e" * 16,
    "weights_sha256": "w" * 64,
    "made_with": "test",
}
SIZE = (64, 48)


def store_of(path, ids, one=None, **settings):
    """Write what `one(image id)` gives, `ImageFeatures` each.

    `settings` are arguments of `build_store`.
    """
    usual = {
        "shards": path.parent / f"{path.stem}-shards",
        "shard_size": 50,
        "dtype": "float32",
        "job": "0" * 16,
    }
    usual |= {
        "attributes": ABOUT,
        "extract": lambda groups: (one(image) for group in groups for image in group),
    }
    build_store(out=path, ids=ids, **usual | settings)
    return path


def write_store(path, ids, *, stream="grid", width=6, rows=4, boxes=False, dtype="float32"):
    """Write one stream whose vectors depend on the image and the width.

    `rows` is a number, or a function of the id.
    """

    def one(image):
        rng = np.random.default_rng([image, width])
        count = rows(image) if callable(rows) else rows
        values = {stream: rng.normal(size=(count, width)).astype(np.float32)}
        if boxes:
            low = rng.uniform(0, 20, (count, 2))
            values[f"{stream}/boxes"] = np.concatenate(
                [low, low + rng.uniform(1, 20, (count, 2))], 1
            )
        return ImageFeatures(image, SIZE, values)

    return store_of(path, list(ids), one, dtype=dtype, streams=(stream,))
