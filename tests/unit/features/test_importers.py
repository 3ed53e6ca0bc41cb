"""Every format of feature files becomes a store with the same numbers."""

import numpy as np
import pytest
import torch

from helpers.feature_files import (
    DIM,
    SIZES,
    regions,
    six_columns,
    ten_columns,
    with_box,
    write_hdf5,
    write_lines,
    write_npz,
    write_pth,
    write_vinvl,
)
from helpers.importing import check_regions, import_settings, refuses_import, run_import, write_corpus_of
from helpers.refusals import refused
from recap.core.errors import FeatureError
from recap.features.store import info

pytestmark = pytest.mark.seconds


def test_ten_columns_with_classes_and_attributes(tmp_path):
    write_lines(tmp_path / "a.tsv", [ten_columns(image_id) for image_id in SIZES])
    store = run_import(tmp_path, "bottom_up_tsv", "a.tsv")
    check_regions(store)
    _, _, classes, scores = regions(123)
    assert store.column([123], "classes")[0].tolist() == classes.tolist()
    np.testing.assert_array_equal(store.column([123], "class_scores")[0], scores)
    assert store.column([123], "attributes")[0].tolist() == (classes // 4).tolist()
    np.testing.assert_array_equal(store.column([123], "attribute_scores")[0], scores / 2)


@pytest.mark.parametrize("packed", [False, True])
def test_vinvl_through_its_lineidx(tmp_path, packed):
    check_vinvl(run_import(tmp_path, "vinvl_tsv", write_vinvl(tmp_path, packed=packed)))


@pytest.mark.parametrize(
    ("suffixes", "streams", "columns"),
    [
        (["features"], ["region"], []),
        (["features", "boxes", "cls_prob"], ["region"], ["boxes", "class_probabilities"]),
        (["features", "boxes", "size", "grids", "mask"], ["region", "grid"], ["boxes", "cells"]),
        (["grids"], ["grid"], []),
    ],
)
def test_hdf5_of_m2_dlct_and_rstnet(tmp_path, suffixes, streams, columns):
    store = run_import(tmp_path, "m2_hdf5", write_hdf5(tmp_path / "m2.hdf5", suffixes))
    assert (store.streams, store.columns()) == (streams, columns)
    if "features" in suffixes:
        check_regions(store, boxes="boxes" in suffixes, sizes="size" in suffixes)
    if "grids" in suffixes:
        assert (store.read([7, 42], "grid")[0] == torch.tensor([7.0, 42.0])[:, None, None]).all()
    if "cls_prob" in suffixes:
        assert store.column([7], "class_probabilities").sum(-1).allclose(torch.ones(3))


@pytest.mark.parametrize("grid", [3, 0])
def test_grid_feats_maps(tmp_path, grid):
    store = run_import(tmp_path, "grid_feats_pth", write_pth(tmp_path / "maps"), grid=grid)
    maps = torch.load(tmp_path / "maps" / "42.pth", weights_only=True)
    expected = torch.nn.functional.adaptive_avg_pool2d(maps, grid) if grid else maps
    rows = store.read([42])[0][0]
    assert torch.equal(rows, expected[0].flatten(1).T)
    assert rows.shape == (grid * grid or 45, DIM)


@pytest.mark.parametrize("boxes", [False, True])
def test_npz_folder_of_regions(tmp_path, boxes):
    check_regions(run_import(tmp_path, "npz_folder", write_npz(tmp_path, boxes=boxes)), boxes=boxes, sizes=False)


def test_first_rows_and_the_settings_that_made_it(tmp_path):
    path = write_hdf5(tmp_path / "m2.hdf5", ["features", "boxes", "grids"])
    store = run_import(tmp_path, "m2_hdf5", path, rows=2)
    assert set(store.rows(store.ids)) == {2}
    assert set(store.rows(store.ids, "grid")) == {49}
    assert "region" in info(store.path, spec=import_settings("m2_hdf5", path, rows=2, shard_size=99))
    with refused(FeatureError, "rows is 2 instead of None"):
        info(store.path, spec=import_settings("m2_hdf5", path))


def test_corpus_chooses_and_names_the_images(tmp_path):
    write_lines(tmp_path / "a.tsv", [six_columns(42, "dog_ab"), six_columns(7), six_columns(123)])
    store = run_import(
        tmp_path, "bottom_up_tsv", "a.tsv", corpus=write_corpus_of(tmp_path, {1: "photos/dog_ab.jpg", 7: "x_7.jpg"})
    )
    assert store.ids.tolist() == [1, 7]
    np.testing.assert_array_equal(store.read([1])[0][0], regions(42)[0])


def test_vinvl_in_a_file_for_each_split(tmp_path):
    path = write_vinvl(tmp_path)
    lines = path.read_bytes().splitlines()
    for split, lines_of in {"train": lines[:1], "val": lines[1:]}.items():
        write_lines(tmp_path / f"{split}.feature.tsv", lines_of)
        starts = np.cumsum([0, *(len(line) + 1 for line in lines_of[:-1])])
        (tmp_path / f"{split}.feature.lineidx").write_text("".join(f"{start}\n" for start in starts))
    spec = import_settings("vinvl_tsv", "train.feature.tsv", "val.feature.tsv")
    assert spec.outside_files()[2:] == ["train.feature.lineidx", "val.feature.lineidx"]
    check_vinvl(run_import(tmp_path, "vinvl_tsv", "train.feature.tsv", "val.feature.tsv"))


def check_vinvl(store):
    """Check vectors, and the boxes that end them."""
    assert store.ids.tolist() == sorted(SIZES) and store.columns() == ["boxes"]
    for image_id in SIZES:
        vectors, shares = with_box(image_id)
        np.testing.assert_array_equal(store.read([image_id])[0][0], vectors)
        np.testing.assert_array_equal(store.column([image_id], "boxes")[0], shares)
        assert store.sizes([image_id]).tolist() == [[1, 1]]


def test_maps_in_a_folder_for_each_split(tmp_path):
    flat = run_import(tmp_path, "grid_feats_pth", write_pth(tmp_path / "flat"))
    for number, file in enumerate(sorted((tmp_path / "flat").iterdir())):
        place = tmp_path / "split" / ("train2014", "val2014")[number % 2]
        place.mkdir(parents=True, exist_ok=True)
        file.rename(place / file.name)
    split = run_import(tmp_path / "split", "grid_feats_pth", tmp_path / "split")
    assert split.ids.tolist() == flat.ids.tolist()
    np.testing.assert_array_equal(split.read([7])[0], flat.read([7])[0])


def test_a_whole_line_is_taken_in_place_of_a_damaged_one(tmp_path):
    whole = [six_columns(image_id) for image_id in SIZES]
    # The published file: the line breaks off, its end stands alone, and the image comes again.
    write_lines(tmp_path / "a.tsv", [whole[0][:-9], whole[0][-9:].replace(b"\t", b""), *whole])
    refuses_import(tmp_path, ["a.tsv, line 2"], "bottom_up_tsv", "a.tsv")
    check_regions(run_import(tmp_path, "bottom_up_tsv", "a.tsv", damaged=[42]))


def test_an_image_without_a_whole_line_is_left_out_where_the_settings_say_so(tmp_path):
    whole = [six_columns(image_id) for image_id in SIZES]
    write_lines(tmp_path / "a.tsv", [whole[0][:-9], *whole[1:]])
    corpus = write_corpus_of(tmp_path, {image_id: f"{image_id}.jpg" for image_id in SIZES})
    refuses_import(tmp_path, ["a.tsv, line 1"], "bottom_up_tsv", "a.tsv", corpus=corpus)
    store = run_import(tmp_path, "bottom_up_tsv", "a.tsv", corpus=corpus, damaged=[42])
    assert store.ids.tolist() == [7, 123]
    with refused(FeatureError, "image id 42"):
        store.read([42])
