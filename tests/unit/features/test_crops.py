"""Boxes of a store are cut out of their pictures and encoded, one vector per box."""

import json

import numpy as np
import pytest
import torch
from PIL import Image

from helpers.feature_stores import store_of
from helpers.generators import noise_pictures
from helpers.importing import write_corpus_of
from helpers.refusals import refused
from recap.core.errors import FeatureError
from recap.features.extraction import ExtractionJob
from recap.features.grid import CropEncoder, extract_crops, own_boxes, pixels
from recap.features.records import ImageFeatures
from recap.features.store import FeatureStore
from recap.settings.features import CropFeatures

SIZE = (60, 40)
IDS = (2, 5, 9, 11, 14)


def spec(**changes):
    values = {
        "boxes": "b",
        "backbone": "test_resnet",
        "weights": "random",
        "image_size": 32,
        "shard_size": 2,
    }
    return CropFeatures(kind="crops", dtype="float32", **{"batch_size": 4, **values, **changes})


def boxes_of(image_id):
    rng = np.random.default_rng(image_id)
    low = rng.uniform(0, 0.5, (1 + image_id % 4, 2)) * SIZE
    return np.concatenate([low, low + rng.uniform(0.2, 0.5, low.shape) * SIZE], 1).astype(
        np.float32
    )


def boxes_store(path, *, size=SIZE, name="region/boxes"):
    def one(image_id):
        own = boxes_of(image_id)
        more = {name: own} if name else {}
        return ImageFeatures(image_id, size, {"region": np.ones((len(own), 2)), **more})

    return store_of(path, IDS, one, streams=("region",))


@pytest.fixture
def photos(tmp_path):
    write_corpus_of(tmp_path, {image_id: f"{image_id}.png" for image_id in IDS})
    boxes_store(tmp_path / "boxes.h5")
    return noise_pictures(tmp_path / "photos", dict.fromkeys(IDS, SIZE))


def extract(photos, out="f.h5", *, threads=1, boxes="boxes.h5", **changes):
    root = photos.parent
    files = {
        "corpus": root / "corpus.parquet",
        "images": [photos],
        "boxes": root / boxes,
        "inputs": root,
    }
    job = ExtractionJob(
        device="cpu", threads=threads, shards=root / "shards", out=root / out, **files
    )
    extract_crops(spec(**changes), job)
    return FeatureStore(root / out)


def test_one_vector_a_box_whatever_the_batches(photos):
    store = extract(photos)
    store.verify()
    encoder = CropEncoder(spec(), weights=None, device=torch.device("cpu"))
    for image_id in IDS:
        boxes = boxes_of(image_id)
        np.testing.assert_array_equal(store.column([image_id], "boxes")[0], boxes)
        with Image.open(photos / f"{image_id}.png") as picture:
            cut = encoder.cut(image_id, picture, boxes)
        alone = torch.cat([encoder.vectors(torch.from_numpy(crop[None])) for crop in cut.crops])
        torch.testing.assert_close(store.read([image_id])[0][0], alone, atol=1e-4, rtol=1e-4)
    assert store.path.read_bytes() == extract(photos, "again.h5", threads=3).path.read_bytes()
    about = json.loads(store.attributes["extractor"])
    assert about["boxes_hash"] == FeatureStore(photos.parent / "boxes.h5").extractor_hash()
    assert "batch_size" not in about


def test_crop_is_the_box(photos):
    picture = Image.new("RGB", SIZE)
    picture.paste((255, 0, 0), (10, 5, 30, 25))
    boxes = np.float32([[10, 5, 30, 25], [30, 25, 60, 40]])
    for crop in ("centre", "squash"):
        cut = CropEncoder(spec(crop=crop), weights=None, device=torch.device("cpu")).cut(
            1, picture, boxes
        )
        assert (cut.crops[0] == [255, 0, 0]).all()
        assert (cut.crops[1] == 0).all()
    wide = Image.new("RGB", (60, 20))
    wide.paste((255, 0, 0), (0, 0, 20, 20))
    box = np.float32([[0, 0, 60, 20]])
    centre, squash = (
        CropEncoder(spec(crop=crop), weights=None, device=torch.device("cpu"))
        .cut(1, wide, box)
        .crops[0]
        for crop in ("centre", "squash")
    )
    assert (centre[:, 2:] == 0).all()  # the middle third; the scaling filter reaches over its edge
    assert (squash[:, :8] == [255, 0, 0]).all()


@pytest.mark.parametrize(
    ("box", "margin", "expected"),
    [
        ([10.2, 5.9, 20.1, 9.0], 0, (10, 5, 21, 9)),
        ([-5, -5, 80, 80], 0, (0, 0, 60, 40)),
        ([30, 20, 30, 20], 0, (30, 20, 31, 21)),
        ([60, 40, 60.5, 40.5], 0, (59, 39, 60, 40)),
        ([10, 10, 20, 30], 0.5, (5, 0, 25, 40)),
    ],
)
def test_pixels_of_a_box_stay_inside_and_are_never_none(box, margin, expected):
    assert pixels(np.float32(box), SIZE, margin=margin) == expected


def test_boxes_of_a_resized_copy_are_scaled_and_other_pictures_refused(tmp_path):
    store = FeatureStore(boxes_store(tmp_path / "b.h5", size=(120, 80)))
    np.testing.assert_allclose(own_boxes(store, 2, SIZE), boxes_of(2) / 2, rtol=1e-6)
    with refused(FeatureError, "image id 2"):
        own_boxes(store, 2, (60, 60))
    unknown = FeatureStore(boxes_store(tmp_path / "u.h5", size=(0, 0)))
    np.testing.assert_array_equal(own_boxes(unknown, 2, SIZE), boxes_of(2))
