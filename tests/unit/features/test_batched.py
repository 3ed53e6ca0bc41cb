"""Pictures of one size are taken together, and their features come in the order that was asked
for."""

import pytest
from PIL import Image

from helpers.generators import noise_pictures
from helpers.importing import write_corpus_of
from recap.core import threads
from recap.core.threads import batched_by_key
from recap.features import extraction
from recap.features.detectors import Resized, resize_scale
from recap.features.extraction import Encoder, ExtractionJob, Pictures
from recap.features.records import ImageFeatures
from recap.features.store import FeatureStore
from recap.settings.features import SegmentFeatures


@pytest.mark.parametrize(
    ("items", "size", "options", "batches"),
    [
        (
            [3, 11, 4, 12, 5, 6, 13],
            3,
            {"key": lambda item: item > 10},
            [[3, 4, 5], [11, 12, 13], [6]],
        ),
        (
            [100, 200, 1, 2, 300, 400, 3, 4],
            3,
            {"key": lambda item: item // 100},
            [[100], [1, 2, 3], [200], [300], [400], [4]],
        ),
        ([1, 1, 5, 1, 4, 1], 4, {"weight": lambda item: item}, [[1, 1, 5], [1, 4], [1]]),
    ],
    ids=["one key", "the oldest do not wait for ever", "some weigh more"],
)
def test_items_that_are_taken_together(items, size, options, batches, monkeypatch):
    monkeypatch.setattr(threads, "WAITING", 2)
    assert list(batched_by_key(items, size, **options)) == batches


def test_a_picture_is_blue_first_and_fits_both_sides():
    result = Resized.of(7, Image.new("RGB", (300, 100), (10, 20, 30)), short=50, long=120)
    assert (result.image_id, result.size, result.pixels.shape) == (7, (300, 100), (3, 40, 120))
    assert result.pixels[:, 5, 5].tolist() == [30, 20, 10]


@pytest.mark.parametrize(
    ("size", "resized"),
    [
        ((500, 333), (901, 600)),
        ((640, 428), (897, 600)),
        ((640, 513), (749, 600)),
        ((640, 360), (1000, 562)),
    ],
)
def test_sizes_are_those_of_the_published_features(size, resized):
    """The boxes of published bottom-up features end at the last pixel of pictures of these
    sizes."""
    scale = resize_scale(size, short=600, long=1000)
    assert (round(size[0] * scale), round(size[1] * scale)) == resized
    assert Resized.of(0, Image.new("RGB", size), short=600, long=1000).pixels.shape == (
        3,
        *resized[::-1],
    )


class Means(Encoder):
    """A stand-in for a detector: the mean color of a picture; notes its batches."""

    streams = ("segment",)
    attributes = dict.fromkeys(("extractor", "extractor_hash", "weights_sha256", "made_with"), "x")

    def __init__(self, size):
        self.size, self.made = size, []

    def prepare(self, image_id, views):
        return Resized.of(image_id, views[0], short=8, long=16)

    def batches(self, items):
        return batched_by_key(items, self.size, key=lambda picture: picture.size)

    def __call__(self, pictures):
        self.made.append([each.image_id for each in pictures])
        assert len({each.pixels.shape for each in pictures}) == 1
        return [
            ImageFeatures(each.image_id, each.size, each.pixels.float().mean((1, 2))[None].numpy())
            for each in pictures
        ]


@pytest.fixture
def photos(tmp_path):
    """A folder of pictures of two sizes and what an extraction from them is given."""
    folder = noise_pictures(
        tmp_path / "photos", {i: (10, 20) if i % 3 else (20, 10) for i in range(9)}
    )
    corpus = write_corpus_of(tmp_path, {image_id: f"{image_id}.png" for image_id in range(9)})

    def job(out):
        return ExtractionJob(
            corpus, images=[folder], inputs=tmp_path, shards=tmp_path / "shards", out=tmp_path / out
        )

    return job


def extract(job, **changes):
    spec = SegmentFeatures(kind="segments", weights="random", dtype="float32", **changes)
    encoder = Means(spec.batch_size)
    extraction.extract(spec, job, encoder, Pictures.find(job))
    return encoder, FeatureStore(job.out)


def test_batches_hold_pictures_of_one_size_and_change_no_value(photos):
    several, store = extract(photos("several.h5"), batch_size=2, shard_size=6)
    # Of a shard of six: two of one size, four of the other; then the next shard.
    assert sorted(several.made) == [[0, 3], [1, 2], [4, 5], [6], [7, 8]]
    alone, single = extract(photos("single.h5"), batch_size=1, shard_size=6)
    assert sorted(alone.made) == [[image_id] for image_id in range(9)]
    assert store.ids.tolist() == list(range(9))
    assert store.attributes["feature_hash"] == single.attributes["feature_hash"]
