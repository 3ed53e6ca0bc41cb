"""Small feature stores of random numbers."""

import numpy as np

from recap.features.records import ImageFeatures
from recap.features.write import build_store

SIZE = (64, 48)


def write_store(path, ids, *, stream="grid", width=6, rows=4, boxes=False, dtype="float32"):
    """Write one stream whose vectors depend on the image and the width; `rows` is a number, or a function of the id."""

    def one(image):
        rng = np.random.default_rng([image, width])
        count = rows(image) if callable(rows) else rows
        found = {stream: rng.normal(size=(count, width)).astype(np.float32)}
        if boxes:
            low = rng.uniform(0, 20, (count, 2))
            found[f"{stream}/boxes"] = np.concatenate([low, low + rng.uniform(1, 20, (count, 2))], 1)
        return ImageFeatures(image, SIZE, found)

    build_store(
        out=path,
        shards=path.parent / f"{path.stem}-shards",
        ids=list(ids),
        shard_size=50,
        dtype=dtype,
        job="0" * 16,
        attributes={"extractor": "{}", "extractor_hash": "0", "weights_sha256": "0", "made_with": "test"},
        extract=lambda groups: (one(image) for group in groups for image in group),
        streams=(stream,),
    )
    return path
