"""Every old form of feature files becomes a store with the same numbers; every damage is one sentence."""

import subprocess
import sys

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
    write_hdf5,
    write_lines,
    write_npz,
    write_pth,
    write_vinvl,
)
from recap.core.config.features.imported import ImportedFeatures
from recap.core.errors import FeatureError
from recap.data.corpus.corpus import Caption, write_corpus
from recap.features.attributes import check_extractor
from recap.features.importers.job import import_features
from recap.features.store import FeatureStore


def settings(format, *sources, **changes):
    values = {"dtype": "float32", "shard_size": 2, **changes}
    return ImportedFeatures(kind="imported", format=format, sources=[str(source) for source in sources], **values)


def bring(folder, format, *sources, corpus=None, **changes):
    spec = settings(format, *sources, **changes)
    return import_features(
        spec=spec, inputs=folder, corpus=corpus, shards=folder / "shards", out=folder / "out" / "f.h5"
    )


def refused(folder, words, format, *sources, **changes):
    with pytest.raises(FeatureError, match=words) as error:
        bring(folder, format, *sources, **changes)
    assert "\n" not in str(error.value)
    assert not (folder / "out" / "f.h5").exists()


def check_regions(store, *, dim=DIM, boxes=True, sizes=True):
    store.verify()
    assert store.ids.tolist() == sorted(SIZES)
    for image_id in SIZES:
        vectors, corners, _, _ = regions(image_id, dim)
        np.testing.assert_array_equal(store.read([image_id])[0][0], vectors)
        if boxes:
            np.testing.assert_array_equal(store.column([image_id], "boxes")[0], corners)
        assert tuple(store.sizes([image_id])[0]) == (SIZES[image_id] if sizes else (0, 0))


def test_six_columns_in_several_files(tmp_path):
    write_lines(tmp_path / "a.tsv", [six_columns(42), six_columns(7)])
    write_lines(tmp_path / "b.tsv", [six_columns(123)])
    store = bring(tmp_path, "bottom_up_tsv", "a.tsv", "b.tsv")
    check_regions(store)
    assert store.columns() == ["boxes"]


def test_ten_columns_with_classes_and_attributes(tmp_path):
    write_lines(tmp_path / "a.tsv", [ten_columns(image_id) for image_id in SIZES])
    store = bring(tmp_path, "bottom_up_tsv", "a.tsv")
    check_regions(store)
    _, _, classes, scores = regions(123)
    assert store.column([123], "classes")[0].tolist() == classes.tolist()
    np.testing.assert_array_equal(store.column([123], "class_scores")[0], scores)
    assert store.column([123], "attributes")[0].tolist() == (classes // 4).tolist()
    np.testing.assert_array_equal(store.column([123], "attribute_scores")[0], scores / 2)


def test_windows_line_ends_and_empty_lines(tmp_path):
    lines = [six_columns(image_id) + b"\r" for image_id in SIZES]
    check_regions(bring(tmp_path, "bottom_up_tsv", write_lines(tmp_path / "a.tsv", [*lines, b""])))


@pytest.mark.parametrize("packed", [False, True])
def test_vinvl_through_its_lineidx(tmp_path, packed):
    store = bring(tmp_path, "vinvl_tsv", write_vinvl(tmp_path, packed=packed))
    check_regions(store, dim=2054, boxes=False, sizes=False)


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
    store = bring(tmp_path, "m2_hdf5", write_hdf5(tmp_path / "m2.hdf5", suffixes))
    assert (store.streams, store.columns()) == (streams, columns)
    if "features" in suffixes:
        check_regions(store, boxes="boxes" in suffixes, sizes="size" in suffixes)
    if "grids" in suffixes:
        assert (store.read([7, 42], "grid")[0] == torch.tensor([7.0, 42.0])[:, None, None]).all()
    if "cls_prob" in suffixes:
        assert store.column([7], "class_probabilities").sum(-1).allclose(torch.ones(3))


@pytest.mark.parametrize("grid", [3, 0])
def test_grid_feats_maps(tmp_path, grid):
    store = bring(tmp_path, "grid_feats_pth", write_pth(tmp_path / "maps"), grid=grid)
    maps = torch.load(tmp_path / "maps" / "42.pth", weights_only=True)
    expected = torch.nn.functional.adaptive_avg_pool2d(maps, grid) if grid else maps
    rows = store.read([42])[0][0]
    assert torch.equal(rows, expected[0].flatten(1).T)
    assert rows.shape == (grid * grid or 45, DIM)


@pytest.mark.parametrize("boxes", [False, True])
def test_npz_folder_of_regions(tmp_path, boxes):
    check_regions(bring(tmp_path, "npz_folder", write_npz(tmp_path, boxes=boxes)), boxes=boxes, sizes=False)


def test_npz_folder_of_maps(tmp_path):
    store = bring(tmp_path, "npz_folder", write_npz(tmp_path, boxes=False, maps=True))
    assert store.streams == ["grid"]
    assert store.read([7])[0][0, 1].tolist() == [7.0 + DIM + i for i in range(DIM)]


def test_first_rows_and_the_settings_that_made_it(tmp_path):
    path = write_hdf5(tmp_path / "m2.hdf5", ["features", "boxes", "grids"])
    store = bring(tmp_path, "m2_hdf5", path, rows=2)
    assert set(store.rows(store.ids)) == {2}
    assert set(store.rows(store.ids, "grid")) == {49}
    check_extractor(store, settings("m2_hdf5", path, rows=2, shard_size=99))
    with pytest.raises(
        FeatureError, match="made by another extractor than the settings name: rows is 2 instead of None"
    ):
        check_extractor(store, settings("m2_hdf5", path))


def corpus(folder, files):
    rows = [Caption(number, file, "train", number, "a dog", ["a", "dog"]) for number, file in files.items()]
    write_corpus(rows, folder / "corpus.parquet", dataset="x", kind="karpathy", source_sha256="0" * 64)
    return folder / "corpus.parquet"


def test_corpus_chooses_and_names_the_images(tmp_path, capsys):
    write_lines(tmp_path / "a.tsv", [six_columns(42, "dog_ab"), six_columns(7), six_columns(123)])
    store = bring(tmp_path, "bottom_up_tsv", "a.tsv", corpus=corpus(tmp_path, {1: "photos/dog_ab.jpg", 7: "x_7.jpg"}))
    assert store.ids.tolist() == [1, 7]
    np.testing.assert_array_equal(store.read([1])[0][0], regions(42)[0])
    said = capsys.readouterr().err
    assert "1 of its 3 images are not in the corpus" in said
    assert "2 images, none twice; region: 5 vectors, 2 to 3 an image" in said


def test_image_of_the_corpus_that_the_files_lack(tmp_path):
    write_lines(tmp_path / "a.tsv", [six_columns(7)])
    files = corpus(tmp_path, {7: "7.jpg", 8: "8.jpg", 9: "9.jpg"})
    refused(
        tmp_path, r"no features for image id 8 \(8\.jpg\) and 1 others of the 3", "bottom_up_tsv", "a.tsv", corpus=files
    )


def spoiled(line, place, change):
    fields = line.split(b"\t")
    fields[place] = change(fields[place])
    return b"\t".join(fields)


NAN = np.full((3, DIM), np.nan, np.float32)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (six_columns(7)[:-5], r"a\.tsv, line 2: .*(truncated|damaged)"),
        (six_columns(7)[:30], "fields, expected 6 or 10|bytes"),
        (six_columns(7).rsplit(b"\t", 1)[0], "line 2: has 5 fields, expected 6 or 10"),
        (b"7", "has no tab after an image id"),
        (spoiled(six_columns(7), 5, lambda field: field[:8] + b"!!!!" + field[12:]), "line 2: bad base64"),
        (spoiled(six_columns(7), 4, lambda field: field[:16]), "holds 12 bytes where 3 x 4 numbers of float32 take 48"),
        (spoiled(six_columns(7), 3, lambda field: b"0"), "line 2: image id 7 has zero boxes"),
        (spoiled(six_columns(7), 3, lambda field: b"many"), "num_boxes is b'many', expected a whole number"),
        (spoiled(six_columns(7), 5, lambda field: text(NAN)), "image id 7: the features hold NaN"),
        (spoiled(six_columns(7), 5, lambda field: text(NAN + np.inf)), "image id 7: the features hold NaN or inf"),
        (spoiled(six_columns(7), 1, lambda field: b"20"), r"image id 7: box .* outside the image of 20 x 40"),
        (six_columns(42), r"a\.tsv, line 2: image id 42 is duplicated"),
        (spoiled(six_columns(7), 0, lambda field: b"dog"), "'dog' has no image id at its end"),
    ],
)  # fmt: skip
def test_damaged_line_is_one_sentence(tmp_path, line, words):
    write_lines(tmp_path / "a.tsv", [six_columns(42), line])
    refused(tmp_path, words, "bottom_up_tsv", "a.tsv")


def test_boxes_over_the_edge_are_clipped_on_request(tmp_path):
    boxes = text(np.tile(np.float32([[-5, 3, 60, 39]]), (3, 1)))
    write_lines(tmp_path / "a.tsv", [spoiled(six_columns(7), 4, lambda field: boxes)])
    store = bring(tmp_path, "bottom_up_tsv", "a.tsv", clip_boxes=True)
    assert store.column([7], "boxes")[0, 0].tolist() == [0, 3, 50, 39]


def test_missing_files_and_other_forms(tmp_path):
    refused(tmp_path, r"none\.tsv: no such file", "bottom_up_tsv", "none.tsv")
    write_lines(tmp_path / "empty.tsv", [])
    refused(tmp_path, "holds no lines", "bottom_up_tsv", "empty.tsv")
    refused(tmp_path, "truncated or no HDF5 file", "m2_hdf5", "empty.tsv")
    refused(tmp_path, "no folder with", "npz_folder", "empty.tsv")
    refused(tmp_path, r"empty\.lineidx: no such file", "vinvl_tsv", "empty.tsv")
    write_lines(tmp_path / "more.tsv", [six_columns(7)])
    refused(tmp_path, "this format takes one HDF5 file", "m2_hdf5", "empty.tsv", "more.tsv")
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"] = [1]
    refused(tmp_path, "no dataset named <id>_features", "m2_hdf5", "other.h5")


def test_lineidx_of_another_file(tmp_path):
    path = write_vinvl(tmp_path)
    index = tmp_path / "features.lineidx"
    index.write_text(index.read_text().replace("0\n", "5\n", 1))
    refused(tmp_path, "no line starts at byte 5", "vinvl_tsv", path)
    index.write_text("zero\n")
    refused(tmp_path, "expected one byte position per line", "vinvl_tsv", path)
    write_vinvl(tmp_path, packed=True)
    path.write_bytes(path.read_bytes().replace(b"num_boxes", b"num_bexes"))
    refused(tmp_path, "no JSON with num_boxes", "vinvl_tsv", path)


def test_hdf5_that_lacks_a_dataset_or_rows(tmp_path):
    path = write_hdf5(tmp_path / "a.hdf5", ["features", "grids"])
    with h5py.File(path, "a") as file:
        del file["42_grids"]
    refused(tmp_path, "42_grids: missing, though other images have it", "m2_hdf5", path)
    path = write_hdf5(tmp_path / "b.hdf5", ["features", "boxes"])
    with h5py.File(path, "a") as file:
        del file["42_boxes"]
    refused(tmp_path, "image id 42: has region/values", "m2_hdf5", path)
    path = write_hdf5(tmp_path / "c.hdf5", ["features"])
    with h5py.File(path, "a") as file:
        del file["7_features"]
        file["7_features"] = np.zeros((0, DIM))
    refused(tmp_path, "image id 7 has zero boxes", "m2_hdf5", path)
    content = path.read_bytes()
    (tmp_path / "d.hdf5").write_bytes(content[: len(content) // 2])
    refused(tmp_path, "truncated or no HDF5 file", "m2_hdf5", "d.hdf5")


def test_pth_that_is_damaged_or_runs_code(tmp_path):
    folder = write_pth(tmp_path / "maps")
    content = (folder / "42.pth").read_bytes()
    (folder / "42.pth").write_bytes(content[: len(content) // 2])
    refused(tmp_path, r"42\.pth: truncated, or more than a tensor", "grid_feats_pth", folder)
    torch.save({"x": subprocess.Popen}, folder / "42.pth")
    refused(tmp_path, r"42\.pth: truncated, or more than a tensor", "grid_feats_pth", folder)
    torch.save(torch.zeros(2, DIM, 3, 3), folder / "42.pth")
    refused(tmp_path, r"holds \[2, 8, 3, 3\], expected", "grid_feats_pth", folder)


def test_npz_that_is_damaged_or_holds_objects(tmp_path):
    folder = write_npz(tmp_path)
    good = (folder / "42.npz").read_bytes()
    for values, words in [
        ({"other": np.ones((2, 2))}, "has no array `feat`"),
        ({"feat": np.array([{}], dtype=object)}, "truncated, damaged or no array"),
        ({"feat": np.ones(3)}, r"`feat` has the shape \[3\]"),
        ({"feat": np.ones((0, DIM))}, "zero boxes"),
    ]:
        np.savez(folder / "42.npz", **values)
        refused(tmp_path, words, "npz_folder", folder)
    (folder / "42.npz").write_bytes(good[:50])
    refused(tmp_path, r"42\.npz: truncated", "npz_folder", folder)
    (folder / "42.npz").write_bytes(good)
    (tmp_path / "cocobu_box" / "42.npy").unlink()
    refused(tmp_path, "has no boxes of image id 42", "npz_folder", folder)


def test_the_command_imports_and_says_one_sentence_when_it_cannot(tmp_path):
    write_lines(tmp_path / "a.tsv", [six_columns(image_id) for image_id in SIZES])
    command = [
        sys.executable,
        "-m",
        "recap",
        "features",
        "import",
        "--format",
        "bottom_up_tsv",
        "--out",
        tmp_path / "f.h5",
    ]
    done = subprocess.run(
        [*command, "--source", tmp_path / "a.tsv", "--dtype", "float32"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    check_regions(FeatureStore(tmp_path / "f.h5"))
    done = subprocess.run([*command, "--source", tmp_path / "b.tsv"], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith("b.tsv: no such file or folder of features; correct the path")
