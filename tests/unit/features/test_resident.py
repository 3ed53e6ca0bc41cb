"""Features that stay in memory read as the store does, or are refused before anything is read."""

import pytest
import torch

from helpers.counting_device import DEVICE, CountingDevice
from helpers.feature_stores import write_store
from helpers.refusals import refused
from recap.core.errors import FeatureError
from recap.runs import resident
from recap.runs.inputs import FeatureSources
from recap.runs.resident import ResidentFeatures

IDS = [3, 8, 11, 20, 41]
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    folder = tmp_path_factory.mktemp("resident")

    store = write_store(folder / "features.h5", IDS, rows=lambda image: 1 + image % 4, dtype="float16")
    return FeatureSources([store])


@pytest.mark.parametrize("wanted", [[41, 3], [8], [20, 20, 11, 3, 41], [3, 8, 11, 20, 41]])
def test_reads_what_the_store_reads(sources, wanted, monkeypatch):
    monkeypatch.setattr(resident, "CHUNK", 2)
    kept = ResidentFeatures(sources, [41, 3, 8, 20, 11], CPU)
    found, expected = kept.read(wanted).main, sources.read(wanted).main
    assert torch.equal(found.values, expected.values) and found.values.dtype == expected.values.dtype
    assert torch.equal(found.mask, expected.mask)


def test_a_gpu_is_not_waited_for(sources):
    kept = ResidentFeatures(sources, IDS, DEVICE)
    with CountingDevice(real=0) as device:
        images = kept.read([41, 3]).main
    assert images.values.device == images.mask.device == DEVICE
    assert not device.waits


def test_too_large_and_unknown_images_are_refused(sources, monkeypatch):
    with refused(FeatureError, "image id 77"):
        ResidentFeatures(sources, [3, 77], CPU)
    assert 2**20 < resident.free_memory(CPU) < 2**50
    monkeypatch.setattr(resident, "free_memory", lambda device: 10)
    with refused(FeatureError, "features_in_memory"):
        ResidentFeatures(sources, IDS, CPU)
