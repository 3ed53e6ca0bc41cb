"""One or several feature stores of the same images, read as named streams."""

import pytest
import torch

from helpers.feature_stores import SIZE, write_store
from helpers.refusals import refused
from recap.core.errors import ConfigError, FeatureError
from recap.models.images import InputSpec
from recap.runs.inputs import FeatureSources

IDS = [3, 8, 11, 20]
CPU = torch.device("cpu")


class ReadsMain:
    reads_boxes = ()

    @staticmethod
    def reads(inputs):
        return [inputs.main]


class ReadsBoth(ReadsMain):
    reads_boxes = ("region", "grid")

    @staticmethod
    def reads(inputs):
        return ["region", "grid"]


@pytest.fixture
def paths(tmp_path):
    grid = write_store(tmp_path / "grid.h5", IDS, stream="grid", width=6, boxes=True)
    region = write_store(
        tmp_path / "region.h5",
        IDS,
        stream="region",
        width=5,
        rows=lambda image: 1 + image % 4,
        boxes=True,
    )
    return [grid, region]


def both(paths):
    sources = FeatureSources(paths)
    sources.choose([ReadsBoth], InputSpec(sources.sizes, 9))
    return sources


def test_streams_are_named_as_in_the_stores_the_main_one_first(paths):
    sources = FeatureSources(paths)
    assert dict(sources.sizes) == {"grid": 6, "region": 5} and list(sources.sizes) == [
        "grid",
        "region",
    ]
    images = both(paths).read([20, 3])
    for name, store in zip(("grid", "region"), sources.stores, strict=True):
        values, mask = store.read([20, 3])
        assert torch.equal(images[name].values, values) and torch.equal(images[name].mask, mask)
        assert torch.equal(images[name].boxes, store.column([20, 3], "boxes").float())
    assert images.main is images["grid"] and len(images) == 2
    assert images["region"].sizes.tolist() == [list(SIZE)] * 2
    one = images.select(torch.tensor([1]))
    assert torch.equal(one["region"].boxes, images["region"].boxes[1:]) and len(one) == 1


def test_what_no_model_reads_is_not_read(paths):
    sources = FeatureSources(paths[:1])
    images = sources.read([3])
    assert list(images.streams) == ["grid"] and images.main.boxes is None
    sources.choose([ReadsMain], InputSpec(sources.sizes, 9))
    assert sources.read([3]).main.boxes is None


def test_a_source_of_which_nothing_is_read_is_refused(paths):
    sources = FeatureSources(paths)
    with refused(ConfigError, "region.h5", "grid"):
        sources.choose([ReadsMain], InputSpec(sources.sizes, 9))


def test_stores_whose_streams_have_one_name_are_refused(paths, tmp_path):
    other = write_store(tmp_path / "other.h5", IDS, stream="grid", width=4)
    with refused(FeatureError, "other.h5", "'grid'", "grid.h5"):
        FeatureSources([paths[0], other])


def test_stores_may_hold_other_images_as_long_as_each_holds_those_that_are_read(paths, tmp_path):
    other = write_store(tmp_path / "other.h5", [3, 8, 11, 21], stream="segment")
    sources = FeatureSources([paths[0], other])
    sources.require([3, 11])
    with refused(FeatureError, "other.h5", "image id 20"):
        sources.require([3, 20])
    with refused(FeatureError, "grid.h5", "image id 21"):
        sources.require([3, 21])


def test_the_hash_of_images_covers_all_stores_and_no_image_beside_them(paths, tmp_path):
    one, together = FeatureSources(paths[:1]), FeatureSources(paths)
    grown = FeatureSources([write_store(tmp_path / "grown.h5", [*IDS, 99], boxes=True)])
    assert one.hash_of([8, 3]) == one.hash_of([3, 8]) == grown.hash_of([3, 8])
    other_order = FeatureSources(paths[::-1])
    assert (
        len({one.hash_of([3]), *(each.hash_of([3, 8]) for each in (one, together, other_order))})
        == 4
    )
    assert one.extractor_hash == one.stores[0].extractor_hash() == grown.extractor_hash
    assert one.extractor_hash != together.extractor_hash
