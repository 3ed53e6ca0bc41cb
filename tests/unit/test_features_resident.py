"""Features that stay in memory read as the store does, or are refused before anything is read."""

import numpy as np
import pytest
import torch

from recap.core.errors import FeatureError
from recap.features import resident
from recap.features.records import ImageFeatures
from recap.features.resident import ResidentFeatures
from recap.features.store import FeatureStore
from recap.features.writer import build_store

IDS = [3, 8, 11, 20, 41]
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("resident")

    def extract(groups):
        for image in (image for group in groups for image in group):
            values = np.random.default_rng(image).normal(size=(1 + image % 4, 6)).astype(np.float32)
            yield ImageFeatures(image, (32, 32), values)

    build_store(
        out=folder / "features.h5",
        shards=folder / "shards",
        ids=IDS,
        shard_size=50,
        dtype="float16",
        job="0" * 16,
        attributes={"extractor": "{}", "extractor_hash": "0", "weights_sha256": "0", "made_with": "test"},
        extract=extract,
    )
    return FeatureStore(folder / "features.h5")


@pytest.mark.parametrize("wanted", [[41, 3], [8], [20, 20, 11, 3, 41], [3, 8, 11, 20, 41]])
def test_reads_what_the_store_reads(store, wanted, monkeypatch):
    monkeypatch.setattr(resident, "PIECE", 2)
    kept = ResidentFeatures(store, [41, 3, 8, 20, 11], CPU)
    for found, expected in zip(kept.read(wanted), store.read(wanted), strict=True):
        assert torch.equal(found, expected) and found.dtype == expected.dtype


def test_too_large_and_unknown_images_are_refused(store, monkeypatch):
    with pytest.raises(FeatureError, match="77"):
        ResidentFeatures(store, [3, 77], CPU)
    assert 2**20 < resident.free_memory(CPU) < 2**50
    monkeypatch.setattr(resident, "free_memory", lambda device: 10)
    with pytest.raises(FeatureError, match="set resident_features: false"):
        ResidentFeatures(store, IDS, CPU)
