import pickle

import h5py
import numpy as np
import pytest
import torch

from helpers.feature_stores import ABOUT, SIZE, store_of
from helpers.refusals import refused
from recap.core.errors import DamagedFeatures, FeatureError
from recap.features.records import ImageFeatures
from recap.features.store import FeatureStore


def values_of(image_id, rows=None, dim=3):
    rng = np.random.default_rng(image_id)
    return rng.normal(size=(rows or 1 + image_id % 4, dim)).astype(np.float32)


def make(path, ids, *, about=ABOUT, rows=None):
    def one(image_id):
        return ImageFeatures(image_id, (image_id, 2 * image_id), values_of(image_id, rows))

    return store_of(path, ids, one, shard_size=3, dtype="float16", attributes=about)


@pytest.fixture
def store(tmp_path):
    return FeatureStore(make(tmp_path / "f.h5", [40, 2, 17, 9, 23, 5, 31]))


def test_values_lie_in_one_piece_at_a_page(tmp_path):
    with h5py.File(make(tmp_path / "f.h5", [1, 2], rows=900)) as file:
        values = file["grid/values"]
        assert values.chunks is None
        assert values.id.get_offset() % 4096 == 0


def test_unknown_id_is_named_with_the_store(store):
    with refused(FeatureError, "f.h5", "image id 18"):
        store.read([2, 18])
    with refused(FeatureError, "image id -1"):
        store.rows([10**12, -1][::-1])


def test_hash_changes_with_values_and_weights_but_not_with_the_job(tmp_path):
    kinds = [([1, 2], ABOUT), ([1, 3], ABOUT), ([1, 2], {**ABOUT, "weights_sha256": "v" * 64})]
    paths = [
        make(tmp_path / f"{number}.h5", ids, about=about)
        for number, (ids, about) in enumerate(kinds)
    ]
    hashes = {FeatureStore(path).feature_hash for path in paths}
    assert len(hashes) == 3
    again = FeatureStore(
        make(tmp_path / "again.h5", [1, 2], about={**ABOUT, "made_with": "another machine"})
    )
    assert again.feature_hash in hashes


def test_store_survives_pickling_and_a_moved_working_folder(store):
    copy = pickle.loads(pickle.dumps(store))
    assert len(pickle.dumps(store)) < 1000
    assert torch.equal(copy.read([9])[0], store.read([9])[0])


@pytest.mark.parametrize("keep", [0, 100, 0.5, 0.98])
def test_truncated_file_is_refused(store, keep):
    content = store.path.read_bytes()
    store.path.write_bytes(content[: keep if isinstance(keep, int) else int(keep * len(content))])
    with refused(DamagedFeatures, "f.h5"):
        FeatureStore(store.path)


STREAMED = list(range(3, 33, 3))


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


def build(path, change=lambda image_id, result: result, dtype="float16"):
    def one(image):
        return ImageFeatures(image, SIZE, change(image, arrays(image)))

    return FeatureStore(
        store_of(path, STREAMED, one, shard_size=4, dtype=dtype, streams=("region", "grid"))
    )


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_every_stream_and_column_of_each_image_comes_back_in_the_order_asked_for(tmp_path, dtype):
    store = build(tmp_path / "f.h5", dtype=dtype)
    store.verify()
    assert store.streams == ["region", "grid"]
    assert (store.stream, store.dim) == ("region", 6)
    assert FeatureStore(store.path, "grid").dim == 5
    asked = [30, 3, 12, 3]
    for stream in store.streams:
        values, mask = store.read(asked, stream)
        assert (values.dtype, mask.dtype) == (torch.float32, torch.bool)
        assert mask.sum(1).tolist() == store.rows(asked, stream).tolist()
        for place, image_id in enumerate(asked):
            expected = torch.from_numpy(arrays(image_id)[stream].astype(dtype)).float()
            assert torch.equal(values[place][mask[place]], expected)
            assert not values[place][~mask[place]].any()
    _, mask = store.read(asked)
    boxes, classes = store.column(asked, "boxes"), store.column(asked, "classes")
    assert boxes.dtype == torch.float32
    for place, image_id in enumerate(asked):
        expected = arrays(image_id)
        np.testing.assert_array_equal(
            boxes[place][mask[place]], expected["region/boxes"].astype(np.float32)
        )
        assert classes[place][mask[place]].tolist() == expected["region/classes"].tolist()
    assert store.sizes(asked).tolist() == [list(SIZE)] * 4
    assert store.rows([3, 4 * 3], "grid").tolist() == [4, 4]


@pytest.mark.parametrize(
    ("name", "value", "named"),
    [
        ("region/boxes", [[0, 0, 80, 20]], ["[0.0, 0.0, 80.0, 20.0]", "64 x 48 pixels"]),
        ("region/boxes", [[9, 0, 8, 20]], ["[9.0, 0.0, 8.0, 20.0]", "right"]),
        ("region/boxes", [[0, 0, 8, np.nan]], ["region/boxes", "NaN"]),
        ("region/boxes", [[0, 0, 8]], ["boxes", "[1, 3]", "[rows, 4]"]),
        ("region/classes", [1, 2], ["region/classes", "[2]", "[1, "]),
        ("segment", np.zeros((1, 6)), ["'region', 'grid', 'segment'"]),
    ],
)
def test_unusable_rows_are_one_sentence_with_the_image(tmp_path, name, value, named):
    def spoil(image_id, result):
        return {**result, name: np.asarray(value, float)} if image_id == 15 else result

    with refused(FeatureError, "image id 15", *named):
        build(tmp_path / "f.h5", spoil)
    assert not (tmp_path / "f.h5").exists()
