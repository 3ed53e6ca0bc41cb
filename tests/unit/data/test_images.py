import io
import os
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from PIL import Image

from helpers.generators import jpeg
from helpers.refusals import refused
from recap.core.errors import DataError
from recap.data.datasets.conceptual_download import Failure, shrunk
from recap.data.files.images import BrokenPicture, ImageSource, decode_rgb

pytestmark = pytest.mark.seconds


@pytest.fixture
def places(tmp_path):
    (tmp_path / "folder" / "val").mkdir(parents=True)
    (tmp_path / "folder" / "val" / "a.jpg").write_bytes(jpeg(1))
    (tmp_path / "folder" / "same.jpg").write_bytes(jpeg(2))
    (tmp_path / "folder" / "val" / "same.jpg").write_bytes(jpeg(3))
    with zipfile.ZipFile(tmp_path / "z.zip", "w") as archive:
        archive.writestr("Flicker8k_Dataset/b.jpg", jpeg(4))
        archive.writestr("Flicker8k_Dataset/c.jpg", jpeg(5))
    return [tmp_path / "folder", tmp_path / "z.zip"]


def test_lookup_by_relative_name_then_by_unique_base_name(places):
    source = ImageSource(places)
    assert source.read("val/a.jpg") == source.read("a.jpg") == jpeg(1)
    assert source.read("same.jpg") == jpeg(2)
    assert source.read("val/same.jpg") == jpeg(3)
    assert source.read("b.jpg") == source.read("Flicker8k_Dataset/b.jpg") == source.read("other/b.jpg") == jpeg(4)
    assert source.missing(["b.jpg", "x.jpg", "val/y.jpg", "a.jpg"]) == ["x.jpg", "val/y.jpg"]
    with refused(DataError, "train/same.jpg"):
        source.read("train/same.jpg")


RAMP = np.tile(np.linspace(0, 65535, 64), (8, 1))
EIGHT = np.rint(RAMP / 257).astype(np.uint8)


def stored(picture, form, **options):
    content = io.BytesIO()
    picture.save(content, format=form, **options)
    return content.getvalue()


SIXTEEN = RAMP.astype(np.uint16)
DEEP = {
    "PNG": stored(Image.fromarray(SIXTEEN), "PNG"),
    "TIFF": stored(Image.fromarray(SIXTEEN), "TIFF"),
    "big-endian TIFF": stored(Image.frombytes("I;16B", (64, 8), SIXTEEN.astype(">u2").tobytes()), "TIFF"),
}


@pytest.mark.parametrize("name", DEEP)
def test_grey_of_16_bits_is_scaled_to_8(name):
    assert Image.open(io.BytesIO(DEEP[name])).mode.startswith("I;16")
    decoded = np.asarray(decode_rgb(DEEP[name], "x"))
    assert decoded.shape == (8, 64, 3)
    assert (decoded == EIGHT[..., None]).all()


def test_black_of_16_bits_is_black_and_12_bits_in_16_are_refused():
    assert np.asarray(decode_rgb(stored(Image.fromarray(SIXTEEN * 0), "PNG"), "x")).max() == 0
    with refused(DataError, "x.png"):
        decode_rgb(stored(Image.fromarray(SIXTEEN // 16), "PNG"), "x.png")


@pytest.mark.parametrize("dtype", [np.int32, np.float32])
@pytest.mark.parametrize("scale", [1, 1 / 65535])
def test_grey_of_32_bits_is_refused(dtype, scale):
    content = stored(Image.fromarray((RAMP * scale).astype(dtype)), "TIFF")
    with refused(DataError, "x.tif", "32 bits"):
        decode_rgb(content, "x.tif")
    with pytest.raises(Failure) as caught:
        shrunk(content, min_side=48)
    assert caught.value.status == "no picture"


GREY = Image.fromarray(EIGHT)


@pytest.mark.parametrize("form", ["EPS", "PPM", "PCX", "TGA", "ICO", "PDF"])
def test_other_formats_are_no_pictures(form):
    with pytest.raises(BrokenPicture):
        decode_rgb(stored(GREY.convert("RGB"), form), "x.jpg")


def test_no_program_is_started_for_any_bytes(tmp_path):
    program = tmp_path / "gs"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    program.chmod(0o755)
    (tmp_path / "x.jpg").write_bytes(stored(GREY.convert("RGB"), "EPS"))
    script = "import sys; from recap.data.files.images import ImageSource; ImageSource([sys.argv[1]]).open_rgb('x.jpg')"
    path = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run([sys.executable, "-c", script, tmp_path], env=path, capture_output=True, text=True)
    assert "truncated or no picture" in done.stderr
    assert not (tmp_path / "ran").exists()


def test_a_web_picture_wider_than_a_jpeg_may_be_is_a_failure_of_its_own():
    with pytest.raises(Failure) as caught:
        shrunk(stored(Image.new("L", (70_000, 2)), "PNG"), min_side=384)
    assert (caught.value.status, caught.value.detail) == ("too large", "70000 x 2 pixels; a JPEG's side has 65500")
    # Scaled down first, its longer side fits.
    assert shrunk(stored(Image.new("L", (70_000, 800)), "PNG"), min_side=384)[1][0] == 33_600
