import pickle
import time

import h5py
import numpy as np
import pytest
import torch

from helpers.feature_stores import ABOUT, store_of
from helpers.refusals import refused
from recap.core.errors import DamagedFeatures, FeatureError, MissingFeatures
from recap.features.records import ImageFeatures, image_digest
from recap.features.store import FeatureStore, Index
from recap.features.write import _fill, _lay_out


def values_of(image_id, rows=None, dim=3):
    rng = np.random.default_rng(image_id)
    return rng.normal(size=(rows or 1 + image_id % 4, dim)).astype(np.float32)


def make(path, ids, *, dtype="float16", about=ABOUT, rows=None):
    def one(image_id):
        return ImageFeatures(image_id, (image_id, 2 * image_id), values_of(image_id, rows))

    return store_of(path, ids, one, shard_size=3, dtype=dtype, attributes=about)


@pytest.fixture
def store(tmp_path):
    return FeatureStore(make(tmp_path / "f.h5", [40, 2, 17, 9, 23, 5, 31]))


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_read_gives_each_image_its_rows_in_the_order_asked_for(tmp_path, dtype):
    store = FeatureStore(make(tmp_path / "f.h5", [40, 2, 17, 9], dtype=dtype))
    asked = [17, 2, 40, 2]
    values, mask = store.read(asked)
    assert values.dtype == torch.float32
    assert mask.dtype == torch.bool
    assert values.shape == (4, 3, 3)
    for place, image_id in enumerate(asked):
        expected = torch.from_numpy(values_of(image_id).astype(dtype).astype(np.float32))
        assert torch.equal(values[place][mask[place]], expected)
        assert (values[place][~mask[place]] == 0).all()
    assert mask.sum(1).tolist() == store.rows(asked).tolist() == [2, 3, 1, 3]


def test_store_says_what_it_holds(store):
    assert store.ids.tolist() == [2, 5, 9, 17, 23, 31, 40]
    assert (len(store), store.dim) == (7, 3)
    assert store.image_sizes[3].tolist() == [17, 34]
    assert store.attributes["extractor"] == ABOUT["extractor"]


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


def test_require_names_the_first_missing_and_counts(store):
    store.require([2, 40])
    with refused(FeatureError, "image id 3"):
        store.require([40, 99, 2, 3, 3])


def test_hash_changes_with_values_and_weights_but_not_with_the_job(tmp_path):
    hashes = set()
    for number, (ids, about) in enumerate(
        [([1, 2], ABOUT), ([1, 3], ABOUT), ([1, 2], {**ABOUT, "weights_sha256": "v" * 64})]
    ):
        hashes.add(FeatureStore(make(tmp_path / f"{number}.h5", ids, about=about)).feature_hash)
    assert len(hashes) == 3
    again = FeatureStore(make(tmp_path / "again.h5", [1, 2], about={**ABOUT, "made_with": "another machine"}))
    assert again.feature_hash in hashes


def test_store_survives_pickling_and_a_moved_working_folder(store):
    copy = pickle.loads(pickle.dumps(store))
    assert len(pickle.dumps(store)) < 1000
    assert torch.equal(copy.read([9])[0], store.read([9])[0])


def test_missing_file_and_missing_stream_are_named(store, tmp_path):
    with refused(MissingFeatures, "none.h5"):
        FeatureStore(tmp_path / "none.h5")
    with refused(FeatureError, "'boxes'", "known are: grid"):
        FeatureStore(store.path, "boxes")


@pytest.mark.parametrize("keep", [0, 100, 0.5, 0.98])
def test_truncated_file_is_refused(store, keep):
    content = store.path.read_bytes()
    store.path.write_bytes(content[: keep if isinstance(keep, int) else int(keep * len(content))])
    with refused(DamagedFeatures, "f.h5"):
        FeatureStore(store.path)


def test_another_hdf5_file_is_refused(tmp_path):
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"] = [1]
    with refused(DamagedFeatures, "other.h5"):
        FeatureStore(tmp_path / "other.h5")


def test_every_flipped_byte_of_the_content_is_noticed(tmp_path):
    path = make(tmp_path / "f.h5", range(40), rows=9)
    content = path.read_bytes()
    with h5py.File(path) as file:
        start, size = file["grid/values"].id.get_offset(), file["grid/values"].nbytes
        places = [(start, size)] + [
            (file[n].id.get_offset(), file[n].nbytes) for n in ("ids", "image_sizes", "grid/offsets")
        ]
    rng = np.random.default_rng(0)
    for number in range(100):
        begin, length = places[number % 4]
        broken = bytearray(content)
        broken[begin + int(rng.integers(length))] ^= 1 << int(rng.integers(8))
        path.write_bytes(broken)
        with pytest.raises(FeatureError):
            FeatureStore(path).verify()
    path.write_bytes(content)
    FeatureStore(path).verify()


def test_large_store_opens_at_once(tmp_path):
    path = make(tmp_path / "f.h5", [1])
    count = 123_287
    index = Index(
        np.arange(count) * 4,
        np.ones((count, 2), np.int32),
        np.tile(np.frombuffer(image_digest({"grid/values": np.ones((1, 2), np.float16)}), np.uint8), (count, 1)),
        np.zeros((count, 32), np.uint8),
        {"grid": np.arange(count + 1)},
    )
    values = {"grid/values": np.ones((count, 2), np.float16)}
    header = FeatureStore(path).attributes
    places = _lay_out(path, index, {"grid/values": np.dtype(("float16", (2,)))}, header)
    _fill(path, places, {"grid/values": 0}, [values])
    begin = time.perf_counter()
    store = FeatureStore(path)
    result, _ = store.read([400, 4 * (count - 1)])
    assert time.perf_counter() - begin < 0.5
    assert result.sum() == 4
