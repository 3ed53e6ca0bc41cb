"""Several streams an image, columns beside the vectors, batches through worker processes."""

import numpy as np
import pytest
import torch

from helpers.feature_stores import SIZE, store_of
from helpers.refusals import refused
from recap.core.errors import FeatureError
from recap.features.records import ImageFeatures
from recap.features.store import FeatureStore

IDS = list(range(3, 33, 3))


def arrays(image_id):
    rng = np.random.default_rng(image_id)
    rows = 1 + image_id % 5
    low = rng.uniform(0, 20, (rows, 2))
    return {
        "region": rng.normal(size=(rows, 6)),
        "region/boxes": np.concatenate([low, low + rng.uniform(1, 20, (rows, 2))], 1),
        "region/classes": rng.integers(0, 1600, rows),
        "region/class_scores": rng.random(rows),
        "grid": rng.normal(size=(4, 5)),
    }


def build(path, change=lambda image_id, result: result, size=SIZE):
    def one(image):
        return ImageFeatures(image, size, change(image, arrays(image)))

    return store_of(path, IDS, one, shard_size=4, dtype="float16", streams=("region", "grid"))


@pytest.fixture
def store(tmp_path):
    return FeatureStore(build(tmp_path / "f.h5"))


def test_every_stream_and_column_comes_back(store):
    store.verify()
    assert store.streams == ["region", "grid"]
    assert (store.stream, store.dim) == ("region", 6)
    assert FeatureStore(store.path, "grid").dim == 5
    asked = [30, 3, 12]
    for stream in store.streams:
        values, mask = store.read(asked, stream)
        for place, image_id in enumerate(asked):
            expected = torch.from_numpy(arrays(image_id)[stream].astype(np.float16)).float()
            assert torch.equal(values[place][mask[place]], expected)
            assert not values[place][~mask[place]].any()
    _, mask = store.read(asked)
    boxes, classes = store.column(asked, "boxes"), store.column(asked, "classes")
    assert boxes.dtype == torch.float32
    for place, image_id in enumerate(asked):
        expected = arrays(image_id)
        np.testing.assert_array_equal(boxes[place][mask[place]], expected["region/boxes"].astype(np.float32))
        assert classes[place][mask[place]].tolist() == expected["region/classes"].tolist()
    assert store.sizes(asked).tolist() == [list(SIZE)] * 3
    assert store.rows([3, 4 * 3], "grid").tolist() == [4, 4]


def test_verify_names_the_image_that_was_damaged(store):
    content = bytearray(store.path.read_bytes())
    place = store.arrays["region/boxes"]
    content[place.offset + place.row.itemsize * int(store._offsets["region"][6])] ^= 1
    store.path.write_bytes(content)
    with refused(FeatureError, "f.h5", f"image id {IDS[6]}", "checksum"):
        FeatureStore(store.path).verify()


@pytest.mark.parametrize(
    ("name", "value", "named"),
    [
        ("region/boxes", [[0, 0, 80, 20]], ["[0.0, 0.0, 80.0, 20.0]", "64 x 48 pixels"]),
        ("region/boxes", [[-3, 0, 8, 20]], ["[-3.0, 0.0, 8.0, 20.0]", "inside"]),
        ("region/boxes", [[9, 0, 8, 20]], ["[9.0, 0.0, 8.0, 20.0]", "right"]),
        ("region/boxes", [[0, 0, 8, np.nan]], ["region/boxes", "NaN"]),
        ("region/boxes", [[0, 0, 8]], ["boxes", "[1, 3]", "[rows, 4]"]),
        ("region/classes", [1, 2], ["region/classes", "2 rows", "1 vectors"]),
        ("region", np.zeros((0, 6)), ["region", "[0, 6]", "one row"]),
        ("segment", np.zeros((1, 6)), ["'region', 'grid', 'segment'"]),
    ],
)
def test_unusable_rows_are_one_sentence_with_the_image(tmp_path, name, value, named):
    def spoil(image_id, result):
        return {**result, name: np.asarray(value, float)} if image_id == 15 else result

    with refused(FeatureError, "image id 15", *named):
        build(tmp_path / "f.h5", spoil)
    assert not (tmp_path / "f.h5").exists()
