"""Every kind of damage to feature files is an error of one line, and no store is written."""

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
    text,
    write_hdf5,
    write_lines,
    write_npz,
    write_pth,
    write_vinvl,
)
from helpers.importing import refuses_import, run_import, with_field

NAN = np.full((3, DIM), np.nan, np.float32)
HUGE = b"9" * 5000


@pytest.mark.parametrize(
    ("line", "named"),
    [
        (six_columns(7)[:-5], ["a.tsv, line 2", "90 bytes", "3 vectors"]),
        (six_columns(7)[:30], ["a.tsv, line 2", "5 fields", "6 or 10"]),
        (six_columns(7).rsplit(b"\t", 1)[0], ["a.tsv, line 2", "5 fields", "6 or 10"]),
        (b"7", ["a.tsv, line 2", "tab", "image id"]),
        (with_field(six_columns(7), 5, lambda field: field[:8] + b"!!!!" + field[12:]), ["a.tsv, line 2", "base64"]),
        (with_field(six_columns(7), 4, lambda field: field[:16]), ["a.tsv, line 2", "12 bytes", "3 x 4", "48"]),
        (with_field(six_columns(7), 3, lambda field: b"0"), ["a.tsv, line 2", "image id 7", "zero boxes"]),
        (with_field(six_columns(7), 3, lambda field: b"many"), ["a.tsv, line 2", "num_boxes", "b'many'"]),
        (with_field(six_columns(7), 5, lambda field: text(NAN)), ["image id 7", "NaN"]),
        (with_field(six_columns(7), 5, lambda field: text(NAN + np.inf)), ["image id 7", "infinite"]),
        (with_field(six_columns(7), 1, lambda field: b"20"), ["image id 7", "box [19.4", "20 x 40"]),
        (six_columns(42), ["a.tsv, line 2", "image id 42"]),
        (with_field(six_columns(7), 0, lambda field: b"dog"), ["a.tsv, line 2", "'dog'", "--corpus"]),
        (with_field(six_columns(7), 4, lambda _: text(regions(7)[1].astype("f2"))), ["24 bytes", "3 x 4", "float32"]),
        (with_field(six_columns(7), 5, lambda _: text(np.ones((3, 5), "f2"))), ["line 2: 30 bytes", "3 vectors"]),
    ],
)  # fmt: skip
def test_damaged_line_is_one_sentence(tmp_path, line, named):
    write_lines(tmp_path / "a.tsv", [six_columns(42), line])
    refuses_import(tmp_path, named, "bottom_up_tsv", "a.tsv")


def test_lineidx_of_another_file(tmp_path):
    path = write_vinvl(tmp_path)
    index = tmp_path / "features.lineidx"
    index.write_text(index.read_text().replace("0\n", "5\n", 1))
    refuses_import(tmp_path, ["features.tsv", "byte 5", ".lineidx"], "vinvl_tsv", path)
    index.write_text("zero\n")
    refuses_import(tmp_path, ["features.lineidx", "byte position"], "vinvl_tsv", path)
    write_vinvl(tmp_path, packed=True)
    path.write_bytes(path.read_bytes().replace(b"num_boxes", b"num_bexes"))
    refuses_import(tmp_path, ["features.tsv, line 2", "JSON", "num_boxes"], "vinvl_tsv", path)


def test_hdf5_that_lacks_a_dataset_or_rows(tmp_path):
    path = write_hdf5(tmp_path / "a.hdf5", ["features", "grids"])
    with h5py.File(path, "a") as file:
        del file["42_grids"]
    refuses_import(tmp_path, ["a.hdf5", "42_grids"], "m2_hdf5", path)
    path = write_hdf5(tmp_path / "b.hdf5", ["features", "boxes"])
    with h5py.File(path, "a") as file:
        del file["42_boxes"]
    refuses_import(tmp_path, ["image id 42", "region/values", "region/boxes"], "m2_hdf5", path)
    path = write_hdf5(tmp_path / "c.hdf5", ["features"])
    with h5py.File(path, "a") as file:
        del file["7_features"]
        file["7_features"] = np.zeros((0, DIM))
    refuses_import(tmp_path, ["c.hdf5", "7_features", "image id 7", "zero boxes"], "m2_hdf5", path)
    content = path.read_bytes()
    (tmp_path / "d.hdf5").write_bytes(content[: len(content) // 2])
    refuses_import(tmp_path, ["d.hdf5", "HDF5"], "m2_hdf5", "d.hdf5")


class RunsCode:
    def __reduce__(self):
        return os.system, ("true",)


def test_pth_that_is_damaged_or_runs_code(tmp_path):
    folder = write_pth(tmp_path / "maps")
    content = (folder / "42.pth").read_bytes()
    (folder / "42.pth").write_bytes(content[: len(content) // 2])
    refuses_import(tmp_path, ["42.pth: "], "grid_feats_pth", folder)
    for zipped in (True, False):
        for content, name in (({"x": subprocess.Popen}, "Popen"), (RunsCode(), "system")):
            torch.save(content, folder / "42.pth", _use_new_zipfile_serialization=zipped)
            refuses_import(tmp_path, ["42.pth: ", name, "could run code"], "grid_feats_pth", folder)
    torch.save(torch.zeros(2, DIM, 3, 3), folder / "42.pth")
    refuses_import(tmp_path, ["42.pth", "[2, 8, 3, 3]", "[1, dim, h, w]"], "grid_feats_pth", folder)


def test_npz_that_is_damaged_or_holds_objects(tmp_path):
    folder = write_npz(tmp_path)
    good = (folder / "42.npz").read_bytes()
    for values, named in [
        ({"other": np.ones((2, 2))}, ["42.npz", "feat"]),
        ({"feat": np.array([{}], dtype=object)}, ["42.npz", "allow_pickle=False"]),
        ({"feat": np.ones(3)}, ["42.npz", "`feat`", "[3]"]),
        ({"feat": np.ones((0, DIM))}, ["42.npz", "image id 42", "zero boxes"]),
    ]:
        np.savez(folder / "42.npz", **values)
        refuses_import(tmp_path, named, "npz_folder", folder)
    (folder / "42.npz").write_bytes(good[:50])
    refuses_import(tmp_path, ["42.npz: "], "npz_folder", folder)
    (folder / "42.npz").write_bytes(good)
    (tmp_path / "cocobu_box" / "42.npy").unlink()
    refuses_import(tmp_path, ["cocobu_box", "image id 42"], "npz_folder", folder)


def shares(image_id):
    return (regions(image_id)[1] / (SIZES[image_id] * 2)).astype(np.float32)


def in_tsv(folder, boxes):
    lines = [with_field(six_columns(image_id), 4, lambda _, i=image_id: text(boxes(i))) for image_id in SIZES]
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


@pytest.mark.parametrize(("format", "write"), [("bottom_up_tsv", in_tsv), ("m2_hdf5", in_hdf5), ("npz_folder", in_npz)])
def test_boxes_that_are_shares_of_the_sides(tmp_path, format, write):
    source = write(tmp_path, shares)
    for _ in range(2):  # what the first run leaves does not let the second pass
        refuses_import(tmp_path, [source.name, "between 0 and 1", "image id"], format, source)
    (tmp_path / "tiny").mkdir()
    run_import(tmp_path, format, write(tmp_path / "tiny", lambda i: regions(i)[1] if i == 123 else shares(i)))


@pytest.mark.parametrize("clip", [False, True])
def test_boxes_of_corner_and_sides(tmp_path, clip):
    lines = [with_field(six_columns(7), 4, lambda field: text(np.float32([[30, 20, 10, 15]] * 3)))]
    named = ["image id 7", "30.0, 20.0, 10.0, 15.0", "not x, y, width and height"]
    refuses_import(tmp_path, named, "bottom_up_tsv", write_lines(tmp_path / "a.tsv", lines), clip_boxes=clip)


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
