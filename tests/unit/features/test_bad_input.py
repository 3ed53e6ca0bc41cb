"""Numbers of another type, values that do not fit, and places that cannot be written: one sentence each."""

import zipfile

import h5py
import numpy as np
import pytest
import torch

from helpers import refusals
from helpers.feature_files import regions, six_columns, write_lines, write_npz, write_pth, write_vinvl
from helpers.importing import import_job
from recap.core.errors import FeatureError
from recap.features.importers import import_features
from recap.features.records import ImageFeatures
from recap.features.write import build_store
from recap.settings.features import ImportedFeatures

ROWS, WIDTH = 36, 2048


def bring(folder, format, source, **changes):
    spec = ImportedFeatures(kind="imported", format=format, sources=[source.name], **{"dtype": "float32", **changes})
    return import_features(spec, import_job(folder, inputs=source.parent))


def refused(folder, words, format, source, **changes):
    with pytest.raises(FeatureError, match=words) as error:
        bring(folder, format, source, **changes)
    assert "\n" not in str(error.value)
    assert not (folder / "out" / "f.h5").exists()


HUGE = b"9" * 5000


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (0, b"9" * 19, "9999999999999999999.*9223372036854775807"),
        (0, HUGE, "has no tab after an image id"),
        (1, b"2147483648", "a side of the image is b'2147483648', expected a whole number up to 2147483647"),
        (3, HUGE, "num_boxes is b'99999.*expected a whole number"),
        (3, b"2147483647", "bytes of features do not make 2147483647 vectors"),
    ],
)
def test_numbers_too_large_for_a_tsv(tmp_path, place, value, words):
    fields = six_columns(7).split(b"\t")
    fields[place] = value
    refused(tmp_path, words, "bottom_up_tsv", write_lines(tmp_path / "a.tsv", [b"\t".join(fields)]))


@pytest.mark.parametrize(
    "content", [b'{"num_boxes": 1e999, "features": ""}', b'{"num_boxes": ' + HUGE + b"}", b"[" * 9999, b'{"a": 1}']
)
def test_vinvl_line_that_is_no_json_of_boxes(tmp_path, content):
    path = write_lines(tmp_path / "features.tsv", [b"7\t" + content])
    (tmp_path / "features.lineidx").write_text("0\n")
    refused(tmp_path, "line 1: (no JSON with num_boxes|the number of boxes is b'inf')", "vinvl_tsv", path)


def test_lineidx_beyond_every_file(tmp_path):
    path = write_vinvl(tmp_path)
    (tmp_path / "features.lineidx").write_text(f"0\n{2**63}\n")
    refused(tmp_path, "expected one byte position per line", "vinvl_tsv", path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda f: f.create_dataset("7_size", data=[1, 2, 3]), "7_size: holds 1 2 3, expected height and width"),
        (lambda f: f.create_dataset("7_size", data=[np.nan, 2]), "7_size: holds nan 2.0, expected height and width"),
        (lambda f: f.create_dataset("7_size", data=[1e300, 2]), "7_size: holds 1e.300 2.0, expected height"),
        (lambda f: f.create_group("7_boxes"), "7_boxes: .*no dataset of numbers"),
        (lambda f: f.create_dataset("7_boxes", data=["a"] * 3), "7_boxes: .*no dataset of numbers"),
        (lambda f: f.create_dataset("7_boxes", (10**9, 2048), "f4", chunks=(1, 2048)), "too large for one image"),
        (lambda f: f.create_dataset("7_boxes", data=np.ones(3)), r"boxes of shape \[3\], expected \[rows, 4\]"),
        (lambda f: f.create_dataset("7_mask", data=np.full((3, 49), 300)), "region/cells exceed the range of uint8"),
    ],
)  # fmt: skip
def test_hdf5_that_holds_something_else(tmp_path, change, words):
    path = tmp_path / "a.hdf5"
    with h5py.File(path, "w") as file:
        file["7_features"] = regions(7)[0]
        change(file)
    refused(tmp_path, words, "m2_hdf5", path, clip_boxes=True)


def test_npz_that_lies(tmp_path):
    folder = write_npz(tmp_path, boxes=False)
    header = repr({"descr": "<f4", "fortran_order": False, "shape": (10**9, 240)}).encode().ljust(118) + b"\n"
    content = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    with zipfile.ZipFile(folder / "7.npz", "w") as archive:
        archive.writestr("feat.npy", content)
    refused(tmp_path, r"7\.npz: truncated, damaged or without an array", "npz_folder", folder)
    np.savez(folder / "7.npz", feat=np.array(["a", "b"]))
    refused(tmp_path, r"7\.npz: holds <U1, expected numbers", "npz_folder", folder)


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
    refused(tmp_path, rf"7\.pth: .*{named}", "grid_feats_pth", folder)


def test_folder_where_a_file_should_be(tmp_path):
    for format in ("bottom_up_tsv", "vinvl_tsv", "m2_hdf5"):
        refused(tmp_path, "is no file; this format takes", format, write_npz(tmp_path / format))
    refused(tmp_path, "a: cannot be read", "bottom_up_tsv", tmp_path / ("a" * 300))


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
        with refusals.refused(FeatureError, named):
            build_store(
                out=tmp_path / out,
                shards=tmp_path / shards,
                ids=[1],
                shard_size=2,
                dtype="float16",
                job="0" * 16,
                attributes={},
                extract=extract,
            )


def test_picture_sizes_that_cannot_be(tmp_path):
    with refusals.refused(FeatureError, "image id 1", "-1 x 5"):
        build_store(
            out=tmp_path / "f.h5",
            shards=tmp_path / "shards",
            ids=[1],
            shard_size=2,
            dtype="float16",
            job="0" * 16,
            attributes={},
            extract=lambda groups: iter([ImageFeatures(1, (-1, 5), np.ones((2, 3)))]),
        )
