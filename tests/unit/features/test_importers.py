"""Feature files of every format: equal numbers in a store,
names that fit one picture, and damage in one sentence."""

import os
import subprocess

import h5py
import numpy as np
import pytest
import torch

from helpers.feature_files import (
    DIM,
    SIZES,
    regions,
    six_columns,
    ten_columns,
    text,
    with_box,
    write_hdf5,
    write_lines,
    write_named,
    write_npz,
    write_pth,
    write_vinvl,
)
from helpers.importing import (
    check_regions,
    import_settings,
    refuses_import,
    run_import,
    with_field,
    write_corpus_of,
)
from helpers.refusals import refused
from recap.core.errors import FeatureError
from recap.features.store import info
from recap.settings.features import FORMATS

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
    check_regions(
        run_import(tmp_path, "npz_folder", write_npz(tmp_path, boxes=boxes)),
        boxes=boxes,
        sizes=False,
    )


def test_first_rows_and_the_settings_that_made_it(tmp_path):
    path = write_hdf5(tmp_path / "m2.hdf5", ["features", "boxes", "grids"])
    store = run_import(tmp_path, "m2_hdf5", path, rows=2)
    assert set(store.rows(store.ids)) == {2}
    assert set(store.rows(store.ids, "grid")) == {49}
    assert "region" in info(
        store.path, spec=import_settings("m2_hdf5", path, rows=2, shard_size=99)
    )
    with refused(FeatureError, "rows is 2 instead of None"):
        info(store.path, spec=import_settings("m2_hdf5", path))


def test_corpus_chooses_and_names_the_images(tmp_path):
    write_lines(tmp_path / "a.tsv", [six_columns(42, "dog_ab"), six_columns(7), six_columns(123)])
    store = run_import(
        tmp_path,
        "bottom_up_tsv",
        "a.tsv",
        corpus=write_corpus_of(tmp_path, {1: "photos/dog_ab.jpg", 7: "x_7.jpg"}),
    )
    assert store.ids.tolist() == [1, 7]
    np.testing.assert_array_equal(store.read([1])[0][0], regions(42)[0])


def test_vinvl_in_a_file_for_each_split(tmp_path):
    path = write_vinvl(tmp_path)
    lines = path.read_bytes().splitlines()
    for split, lines_of in {"train": lines[:1], "val": lines[1:]}.items():
        write_lines(tmp_path / f"{split}.feature.tsv", lines_of)
        starts = np.cumsum([0, *(len(line) + 1 for line in lines_of[:-1])])
        (tmp_path / f"{split}.feature.lineidx").write_text(
            "".join(f"{start}\n" for start in starts)
        )
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


NAN = np.full((3, DIM), np.nan, np.float32)


@pytest.mark.parametrize(
    ("line", "named"),
    [
        (six_columns(7)[:-5], ["a.tsv, line 2", "truncated"]),
        (six_columns(7).rsplit(b"\t", 1)[0], ["a.tsv, line 2", "5 fields", "6 or 10"]),
        (
            with_field(six_columns(7), 5, lambda field: field[:8] + b"!!!!" + field[12:]),
            ["a.tsv, line 2", "base64"],
        ),
        (
            with_field(six_columns(7), 3, lambda field: b"0"),
            ["a.tsv, line 2", "image id 7", "zero boxes"],
        ),
        (with_field(six_columns(7), 5, lambda field: text(NAN)), ["image id 7", "NaN"]),
        (
            with_field(six_columns(7), 1, lambda field: b"20"),
            ["image id 7", "box [19.4", "20 x 40"],
        ),
        (six_columns(42), ["a.tsv, line 2", "image id 42"]),
        (
            with_field(six_columns(7), 0, lambda field: b"dog"),
            ["a.tsv, line 2", "'dog'", "--corpus"],
        ),
        (
            with_field(six_columns(7), 4, lambda _: text(regions(7)[1].astype("f2"))),
            ["a.tsv, line 2", "size 6", "(3,4)"],
        ),
    ],
)
def test_damaged_line_is_one_sentence(tmp_path, line, named):
    write_lines(tmp_path / "a.tsv", [six_columns(42), line])
    refuses_import(tmp_path, named, "bottom_up_tsv", "a.tsv")


def test_lineidx_of_another_file(tmp_path):
    path = write_vinvl(tmp_path)
    index = tmp_path / "features.lineidx"
    index.write_text(index.read_text().replace("0\n", "5\n", 1))
    refuses_import(tmp_path, ["features.tsv", "byte 5", ".lineidx"], "vinvl_tsv", path)


def test_hdf5_that_lacks_a_dataset_or_rows(tmp_path):
    path = write_hdf5(tmp_path / "a.hdf5", ["features", "grids"])
    with h5py.File(path, "a") as file:
        del file["42_grids"]
    refuses_import(tmp_path, ["a.hdf5", "42_grids"], "m2_hdf5", path)
    path = write_hdf5(tmp_path / "b.hdf5", ["features", "boxes"])
    with h5py.File(path, "a") as file:
        del file["42_boxes"]
    refuses_import(tmp_path, ["image id 42", "region/values", "region/boxes"], "m2_hdf5", path)


class RunsCode:
    def __reduce__(self):
        return os.system, ("true",)


def test_pth_that_runs_code_or_has_another_shape(tmp_path):
    folder = write_pth(tmp_path / "maps")
    for zipped in (True, False):
        for content, name in (({"x": subprocess.Popen}, "Popen"), (RunsCode(), "system")):
            torch.save(content, folder / "42.pth", _use_new_zipfile_serialization=zipped)
            refuses_import(tmp_path, ["42.pth: ", name, "could run code"], "grid_feats_pth", folder)
    torch.save(torch.zeros(2, DIM, 3, 3), folder / "42.pth")
    refuses_import(tmp_path, ["42.pth", "[2, 8, 3, 3]", "[1, dim, h, w]"], "grid_feats_pth", folder)


def test_npz_that_holds_objects_or_lacks_boxes(tmp_path):
    folder = write_npz(tmp_path)
    good = (folder / "42.npz").read_bytes()
    for values, named in [
        ({"other": np.ones((2, 2))}, ["42.npz", "feat"]),
        ({"feat": np.array([{}], dtype=object)}, ["42.npz", "allow_pickle=False"]),
        ({"feat": np.ones(3)}, ["42.npz", "`feat`", "[3]"]),
    ]:
        np.savez(folder / "42.npz", **values)
        refuses_import(tmp_path, named, "npz_folder", folder)
    (folder / "42.npz").write_bytes(good)
    (tmp_path / "cocobu_box" / "42.npy").unlink()
    refuses_import(tmp_path, ["cocobu_box", "image id 42"], "npz_folder", folder)


def shares(image_id):
    return (regions(image_id)[1] / (SIZES[image_id] * 2)).astype(np.float32)


def in_tsv(folder, boxes):
    lines = [
        with_field(six_columns(image_id), 4, lambda _, i=image_id: text(boxes(i)))
        for image_id in SIZES
    ]
    return write_lines(folder / "a.tsv", lines)


def in_hdf5(folder, boxes):
    path = write_hdf5(folder / "a.hdf5", ["features", "boxes", "size"])
    with h5py.File(path, "a") as file:
        for image_id in SIZES:
            file[f"{image_id}_boxes"][...] = boxes(image_id)
    return path


def in_npz(folder, boxes):
    source = write_npz(folder)
    for image_id in SIZES:
        np.save(folder / "cocobu_box" / f"{image_id}.npy", boxes(image_id))
    return source


@pytest.mark.parametrize(
    ("format", "write"), [("bottom_up_tsv", in_tsv), ("m2_hdf5", in_hdf5), ("npz_folder", in_npz)]
)
def test_boxes_that_are_shares_of_the_sides(tmp_path, format, write):
    source = write(tmp_path, shares)
    for _ in range(2):  # what the first run leaves does not let the second pass
        refuses_import(tmp_path, [source.name, "between 0 and 1", "image id"], format, source)
    (tmp_path / "tiny").mkdir()
    run_import(
        tmp_path,
        format,
        write(tmp_path / "tiny", lambda i: regions(i)[1] if i == 123 else shares(i)),
    )


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda f: f.create_dataset("7_size", data=[1, 2, 3]), "7_size: holds 1 2 3"),
        (lambda f: f.create_dataset("7_size", data=[1e300, 2]), "7_size: holds 1e+300 2.0"),
        (lambda f: f.create_group("7_boxes"), "7_boxes"),
        (lambda f: f.create_dataset("7_boxes", data=["a"] * 3), "7_boxes"),
        (lambda f: f.create_dataset("7_boxes", (10**9, 2048), "f4", chunks=(1, 2048)), "7_boxes"),
        (lambda f: f.create_dataset("7_boxes", data=np.ones(3)), "[rows, 4]"),
        (lambda f: f.create_dataset("7_mask", data=np.full((3, 49), 300)), "region/cells"),
    ],
)
def test_hdf5_that_holds_something_else(tmp_path, change, named):
    path = tmp_path / "a.hdf5"
    with h5py.File(path, "w") as file:
        file["7_features"] = regions(7)[0]
        change(file)
    refuses_import(tmp_path, [named], "m2_hdf5", path, clip_boxes=True)


def test_hdf5_that_is_truncated_or_none_is_refused(tmp_path):
    path = write_hdf5(tmp_path / "a.hdf5", ["features"])
    for content in (path.read_bytes()[:-100], b"no HDF5 file", b""):
        path.write_bytes(content)
        refuses_import(tmp_path, ["a.hdf5", "fetch it again"], "m2_hdf5", path)


@pytest.mark.parametrize(
    ("tensor", "named"),
    [
        (torch.ones(1, 8, 3, 3, dtype=torch.int64), "torch.int64"),
        (torch.ones(1, 1, 1, 1).expand(1, 2048, 10**4, 10**4), "4 bytes"),
    ],
)
def test_pth_of_whole_numbers_or_of_a_size_that_lies(tmp_path, tensor, named):
    folder = write_pth(tmp_path / "maps")
    torch.save(tensor, folder / "7.pth")
    refuses_import(tmp_path, ["7.pth", named], "grid_feats_pth", folder)


every_format = pytest.mark.parametrize("format", FORMATS.names())
PHOTOS = dict(enumerate(sorted(f"photo_{number}.jpg" for number in (1, 2, 3, 10, 11, 12))))


def imported(folder, format, values, files, **changes):
    """Import an image for each name, its vectors full of its value; return image id -> value."""
    corpus = write_corpus_of(folder, files) if isinstance(files, dict) else files
    store = run_import(
        folder, format, write_named(folder / "new", format, values), corpus=corpus, **changes
    )
    return {image_id: store.read([image_id])[0][0, 0, 0].item() for image_id in store.ids.tolist()}


def refuses(folder, named, format, names, files):
    corpus = write_corpus_of(folder, files)
    refuses_import(folder, named, format, write_named(folder / "new", format, names), corpus=corpus)


@every_format
def test_numbers_are_no_ids_of_pictures_that_the_reader_numbered(tmp_path, format):
    names = {str(number): number for number in range(13)}
    refuses(
        tmp_path,
        ["image id 0 (photo_1.jpg)", "13 names", "'0'", "--names ids"],
        format,
        names,
        PHOTOS,
    )
    assert imported(tmp_path, format, names, PHOTOS, names="ids") == {
        number: number for number in range(6)
    }


def test_whole_names_are_looked_up_before_numbers(tmp_path):
    names = {f"photo_{number}": number for number in range(13)}
    assert imported(tmp_path, "npz_folder", names, PHOTOS) == {
        0: 1,
        1: 10,
        2: 11,
        3: 12,
        4: 2,
        5: 3,
    }


def test_published_ids_are_found_by_number(tmp_path):
    files = {7: "val2014/COCO_val2014_000000000007.jpg", 42: "000000000042.jpg", 123: "123.jpg"}
    for names in (
        ["7", "42", "123", "9"],
        ["000000000007", "COCO_train2014_000000000042", "000000000123", "x_9"],
    ):
        values = dict(zip(names, (7, 42, 123, 9), strict=True))
        assert imported(tmp_path, "npz_folder", values, files) == {7: 7, 42: 42, 123: 123}


def test_number_at_the_end_of_another_name_is_no_id(tmp_path):
    names, files = {"cat_0": 0, "dog_1": 1}, {0: "dog_0.jpg", 1: "dog_1.jpg"}
    refuses(tmp_path, ["dog_0.jpg", "'cat_0'"], "npz_folder", names, files)


def test_name_that_is_a_number_of_another_picture_is_refused_until_the_settings_decide(tmp_path):
    names, files, format = {"1": 1, "2": 2}, {0: "1.jpg", 1: "2.jpg", 2: "3.jpg"}, "npz_folder"
    both = ["'1'", "1.jpg (image id 0)", "2.jpg (image id 1)", "--names"]
    refuses(tmp_path, both, format, names, files)
    assert imported(tmp_path, format, {**names, "3": 3}, files, names="files") == {0: 1, 1: 2, 2: 3}


@every_format
def test_two_pictures_of_one_stem_are_refused_unless_names_have_the_folder(tmp_path, format):
    files = {3: "a/dog.jpg", 5: "b/dog.jpg"}
    both = ["'dog'", "a/dog.jpg (image id 3)", "b/dog.jpg (image id 5)", "--names"]
    refuses(tmp_path, both, format, {"dog": 1}, files)
    if format != "m2_hdf5":  # a slash in a name of HDF5 is a group
        assert imported(tmp_path, format, {"b/dog": 5, "a/dog": 3}, files) == {3: 3, 5: 5}
