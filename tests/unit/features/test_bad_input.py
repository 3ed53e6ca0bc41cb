"""Numbers of another type, values that do not fit, and places that cannot be written: one sentence each."""

import zipfile

import h5py
import numpy as np
import pytest
import torch

from helpers.feature_files import regions, six_columns, write_lines, write_npz, write_pth, write_vinvl
from helpers.feature_stores import store_of
from helpers.importing import refuses_import, with_field
from helpers.refusals import refused
from recap.core.errors import FeatureError
from recap.features.records import ImageFeatures

HUGE = b"9" * 5000


@pytest.mark.parametrize(
    ("place", "value", "named"),
    [
        (0, b"9" * 19, ["9999999999999999999", "9223372036854775807"]),
        (0, HUGE, ["tab", "image id"]),
        (1, b"2147483648", ["b'2147483648'", "2147483647"]),
        (3, HUGE, ["num_boxes", "b'99999"]),
        (3, b"2147483647", ["2147483647 vectors"]),
    ],
)
def test_numbers_too_large_for_a_tsv(tmp_path, place, value, named):
    lines = [with_field(six_columns(7), place, lambda _: value)]
    refuses_import(tmp_path, named, "bottom_up_tsv", write_lines(tmp_path / "a.tsv", lines))


@pytest.mark.parametrize(
    "content", [b'{"num_boxes": 1e999, "features": ""}', b'{"num_boxes": ' + HUGE + b"}", b"[" * 9999, b'{"a": 1}']
)
def test_vinvl_line_that_is_no_json_of_boxes(tmp_path, content):
    path = write_lines(tmp_path / "features.tsv", [b"7\t" + content])
    (tmp_path / "features.lineidx").write_text("0\n")
    refuses_import(tmp_path, ["features.tsv, line 1"], "vinvl_tsv", path)


def test_lineidx_beyond_every_file(tmp_path):
    path = write_vinvl(tmp_path)
    (tmp_path / "features.lineidx").write_text(f"0\n{2**63}\n")
    refuses_import(tmp_path, ["features.lineidx", "byte position"], "vinvl_tsv", path)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda f: f.create_dataset("7_size", data=[1, 2, 3]), "7_size: holds 1 2 3"),
        (lambda f: f.create_dataset("7_size", data=[np.nan, 2]), "7_size: holds nan 2.0"),
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


def test_npz_that_lies(tmp_path):
    folder = write_npz(tmp_path, boxes=False)
    header = repr({"descr": "<f4", "fortran_order": False, "shape": (10**9, 240)}).encode().ljust(118) + b"\n"
    content = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    with zipfile.ZipFile(folder / "7.npz", "w") as archive:
        archive.writestr("feat.npy", content)
    refuses_import(tmp_path, ["7.npz"], "npz_folder", folder)
    np.savez(folder / "7.npz", feat=np.array(["a", "b"]))
    refuses_import(tmp_path, ["7.npz", "<U1"], "npz_folder", folder)


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


def test_folder_where_a_file_should_be(tmp_path):
    for format in ("bottom_up_tsv", "vinvl_tsv", "m2_hdf5"):
        refuses_import(tmp_path, [tmp_path / format], format, write_npz(tmp_path / format))
    refuses_import(tmp_path, ["a" * 300], "bottom_up_tsv", tmp_path / ("a" * 300))


def test_place_that_cannot_be_written_is_said_before_any_work(tmp_path):
    def extract(groups):
        raise AssertionError("asked for features")

    (tmp_path / "file").write_text("")
    for out, shards, named in [
        ("file/f.h5", "shards", "file: "),
        (".", "shards", tmp_path),
        ("f.h5", "file", "file: "),
        ("a" * 300 + "/f.h5", "shards", "File name too long"),
    ]:
        with refused(FeatureError, named):
            store_of(tmp_path / out, [1], extract=extract, shards=tmp_path / shards)


def test_picture_sizes_that_cannot_be(tmp_path):
    with refused(FeatureError, "image id 1", "-1 x 5"):
        store_of(tmp_path / "f.h5", [1], lambda image: ImageFeatures(image, (-1, 5), np.ones((2, 3))))
