"""Features that stay in memory read as the store does, or are refused before anything is read."""

import numpy as np
import pytest
import torch

from recap.core.errors import FeatureError
from recap.features.records import ImageFeatures
from recap.features.writer import build_store
from recap.runs import resident
from recap.runs.inputs import FeatureSources
from recap.runs.resident import ResidentFeatures

IDS = [3, 8, 11, 20, 41]
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
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
    return FeatureSources([folder / "features.h5"])


@pytest.mark.parametrize("wanted", [[41, 3], [8], [20, 20, 11, 3, 41], [3, 8, 11, 20, 41]])
def test_reads_what_the_store_reads(sources, wanted, monkeypatch):
    monkeypatch.setattr(resident, "CHUNK", 2)
    kept = ResidentFeatures(sources, [41, 3, 8, 20, 11], CPU)
    found, expected = kept.read(wanted).main, sources.read(wanted).main
    assert torch.equal(found.values, expected.values) and found.values.dtype == expected.values.dtype
    assert torch.equal(found.mask, expected.mask)


def test_too_large_and_unknown_images_are_refused(sources, monkeypatch):
    with pytest.raises(FeatureError, match="77"):
        ResidentFeatures(sources, [3, 77], CPU)
    assert 2**20 < resident.free_memory(CPU) < 2**50
    monkeypatch.setattr(resident, "free_memory", lambda device: 10)
    with pytest.raises(FeatureError, match="set features_in_memory: false"):
        ResidentFeatures(sources, IDS, CPU)
