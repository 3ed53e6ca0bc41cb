"""Regions and segments that are pooled from another store's grid:
true areas of scenes, and merged cells."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.ndimage import label

from helpers.feature_stores import store_of
from helpers.prepared import write_scenes
from recap.data.datasets.scene_captions import BACKGROUNDS, SHAPES
from recap.data.datasets.scenes import painted_mask
from recap.data.files.images import ImageSource
from recap.features.extraction import ExtractionJob
from recap.features.pooled import box_shares, extract_pooled, mask_shares, merged_cells, tight_boxes
from recap.features.records import ImageFeatures
from recap.features.store import FeatureStore
from recap.settings.features import BOXES, PooledFeatures

SIZE, SIDE, WIDTH = 84, 7, 5


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    return write_scenes(
        tmp_path_factory.mktemp("scenes"), "scenes", train=20, val=2, test=3, size=SIZE, seed=1
    ).parent


@pytest.fixture(scope="module")
def records(scenes):
    return json.loads((scenes / BOXES).read_text())["images"]


@pytest.fixture(scope="module")
def cells(scenes, records):
    """A grid whose first two numbers are the column and the row of a cell."""

    def one(image):
        rows, columns = np.divmod(np.arange(SIDE**2), SIDE)
        noise = np.random.default_rng(image).normal(size=(SIDE**2, WIDTH - 2))
        return ImageFeatures(
            image, (SIZE, SIZE), np.concatenate([np.stack([columns, rows], 1), noise], 1)
        )

    return store_of(scenes / "cells.h5", [record["image_id"] for record in records], one)


def extracted(scenes, cells, areas, *, out, **changes):
    spec = PooledFeatures(kind="pooled", cells="cells", areas=areas, dtype="float32", **changes)
    products = [scenes / name for name in spec.products()]
    job = ExtractionJob(
        scenes / "corpus.parquet",
        [],
        Path(),
        out / "s",
        out / "x.h5",
        cells=cells,
        products=products,
    )
    extract_pooled(spec, job)
    return FeatureStore(out / "x.h5")


def test_masks_are_drawn_where_objects_were_painted(scenes, records):
    source = ImageSource([scenes / "images.zip"])
    for record in records:
        masks = np.stack(
            [painted_mask(item["shape"], item["drawn"], size=SIZE) for item in record["objects"]]
        )
        boxes = [item["box"] for item in record["objects"]]
        np.testing.assert_allclose(tight_boxes(masks) / 3, boxes, atol=0.01)
        picture = np.asarray(source.open_rgb(record["file"])).astype(int)
        free = ~masks.any(0).reshape(SIZE, 3, SIZE, 3).any((1, 3))
        # Grounds are grey, objects are not; a few pixels of a body lie beside its rim.
        assert (np.ptp(picture[free], axis=-1) > 8).mean() < 0.005
        inside = masks.any(0).reshape(SIZE, 3, SIZE, 3).all((1, 3))
        assert np.ptp(picture[inside], axis=-1).mean() > 40


def test_the_share_of_a_cell_is_the_part_of_it_that_a_box_covers():
    shares = box_shares(
        np.array([[0, 0, 10, 10], [5, 0, 20, 40], [2, 3, 2.5, 3.5]], float), (20, 40), 2
    )
    np.testing.assert_allclose(shares, [[0.5, 0, 0, 0], [0.5, 1, 0.5, 1], [0.00125, 0, 0, 0]])
    mask = np.zeros((1, 20, 20), bool)
    mask[0, :15, 5:] = True
    np.testing.assert_allclose(mask_shares(mask, 2), [[0.5, 1, 0.25, 0.5]])
    np.testing.assert_allclose(tight_boxes(mask), [[5, 0, 20, 15]])


def test_true_boxes_give_a_region_for_each_object_at_its_place(scenes, cells, records, tmp_path):
    store = extracted(scenes, cells, "boxes", out=tmp_path)
    assert store.stream == "region"
    for record in records:
        result = [record["image_id"]]
        assert store.rows(result)[0] == len(record["objects"])
        boxes = store.column(result, "boxes")[0].numpy()
        np.testing.assert_allclose(boxes, [item["box"] for item in record["objects"]], atol=1e-4)
        middles = (boxes[:, :2] + boxes[:, 2:]) / 2 * SIDE / SIZE - 0.5
        np.testing.assert_allclose(store.read(result)[0][0, :, :2].numpy(), middles, atol=0.35)


def test_true_masks_give_a_segment_for_each_object_and_one_for_the_ground(
    scenes, cells, records, tmp_path
):
    store = extracted(scenes, cells, "masks", out=tmp_path)
    for record in records:
        result = [record["image_id"]]
        assert store.rows(result)[0] == len(record["objects"]) + 1
        boxes = store.column(result, "boxes")[0].numpy()
        np.testing.assert_allclose(
            boxes[:-1], [item["box"] for item in record["objects"]], atol=0.01
        )
        assert boxes[-1].tolist() == [0, 0, SIZE, SIZE]


def test_occupancy_names_what_is_in_each_cell(scenes, cells, records, tmp_path):
    store = extracted(scenes, cells, "occupancy", out=tmp_path)
    assert store.columns() == []
    for record in records:
        shares = store.read([record["image_id"]])[0][0].numpy()
        assert shares.shape == (SIDE**2, len(SHAPES) + len(BACKGROUNDS))
        np.testing.assert_allclose(shares.sum(1), 1, atol=1e-5)
        seen = {(*SHAPES, *BACKGROUNDS)[kind] for kind in np.flatnonzero(shares.max(0))}
        assert seen == {item["shape"] for item in record["objects"]} | {record["background"]}


def test_merged_cells_are_connected_and_cover_the_grid_once(scenes, cells, tmp_path):
    cells_of_one = FeatureStore(cells).read([0])[0][0].numpy()
    groups = merged_cells(cells_of_one, SIDE, 6)
    assert (groups.sum(0) == 1).all() and len(groups) >= 6
    assert all(label(group)[1] == 1 for group in groups)
    store = extracted(scenes, cells, "merged", out=tmp_path, regions=6)
    boxes = store.column([0], "boxes")[0].numpy()
    np.testing.assert_allclose(boxes[: len(groups)], tight_boxes(groups) * SIZE / SIDE)
    np.testing.assert_allclose(
        store.read([0])[0][0, 0].numpy(), cells_of_one[groups[0].ravel()].mean(0), atol=1e-5
    )


def test_cells_that_are_alike_are_merged_and_others_are_not():
    cells = np.zeros((16, 3))
    cells[:, 0] = 1
    thing = np.zeros((4, 4), bool)
    thing[1:3, 1:3] = True
    cells[thing.ravel()] = [0, 1, 0]
    groups = merged_cells(cells, 4, 2)
    assert sorted(group.sum() for group in groups) == [4, 12] and any(
        (group == thing).all() for group in groups
    )
