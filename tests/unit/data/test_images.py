import io
import os
import subprocess
import sys
import unicodedata
import zipfile

import numpy as np
import pytest
from PIL import Image

from helpers.generators import STORED_BY, jpeg, save_lying
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
    assert (
        source.read("b.jpg")
        == source.read("Flicker8k_Dataset/b.jpg")
        == source.read("other/b.jpg")
        == jpeg(4)
    )
    assert source.missing(["b.jpg", "x.jpg", "val/y.jpg", "a.jpg"]) == ["x.jpg", "val/y.jpg"]
    with refused(DataError, "train/same.jpg"):
        source.read("train/same.jpg")


def in_form(form, name):
    return unicodedata.normalize(form, name)


@pytest.mark.parametrize("zipped", [False, True], ids=["folder", "zip"])
@pytest.mark.parametrize("there, asked", [("NFD", "NFC"), ("NFC", "NFD")])
def test_a_name_in_another_unicode_form_is_the_same_picture(tmp_path, there, asked, zipped):
    root = tmp_path / ("z.zip" if zipped else "folder")
    names = [in_form(there, name) for name in ("one/café.jpg", "two/café.jpg", "two/naïve.jpg")]
    with zipfile.ZipFile(tmp_path / "z.zip", "w") as archive:
        for number, name in enumerate(names):
            archive.writestr(name, jpeg(number))
            (tmp_path / "folder" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "folder" / name).write_bytes(jpeg(number))
    source = ImageSource([root])
    assert source.read(in_form(asked, "two/café.jpg")) == jpeg(1)
    assert source.read(in_form(asked, "naïve.jpg")) == jpeg(2)
    assert source.locate(in_form(asked, "two/café.jpg")) == (root, names[1])
    with refused(DataError, "two/", "one/", "café.jpg"):
        source.read(in_form(asked, "café.jpg"))


def test_a_name_that_is_there_in_both_unicode_forms_is_read_as_it_is_written(tmp_path):
    for number, form in enumerate(("NFC", "NFD")):
        (tmp_path / in_form(form, "café.jpg")).write_bytes(jpeg(number))
    source = ImageSource([tmp_path])
    assert [source.read(in_form(form, "café.jpg")) for form in ("NFC", "NFD")] == [jpeg(0), jpeg(1)]


def test_a_name_that_is_there_with_other_capitals_is_not_read_but_named(tmp_path):
    (tmp_path / "IMG_1.JPG").write_bytes(jpeg(1))
    source = ImageSource([tmp_path])
    with refused(DataError, "photos/IMG_1.jpg", "IMG_1.JPG is there"):
        source.read("photos/IMG_1.jpg")
    with refused(DataError, "IMG_2.jpg") as caught:
        source.read("IMG_2.jpg")
    assert "is there" not in str(caught.value)


ACROSS, DOWN = (
    axis.astype(np.uint8) for axis in np.meshgrid(np.linspace(0, 255, 40), np.linspace(0, 255, 24))
)
COLOURS = Image.fromarray(np.dstack([ACROSS, DOWN, ACROSS // 2]))
FORMS = {"a.jpg": {"quality": 95}, "a.webp": {"lossless": True}, "a.png": {}, "a.tif": {}}


@pytest.mark.parametrize("file", FORMS)
@pytest.mark.parametrize("orientation", STORED_BY)
def test_a_picture_is_turned_as_its_exif_data_say_only_where_it_is_asked_for(
    tmp_path, file, orientation
):
    save_lying(COLOURS, tmp_path / file, orientation, **FORMS[file])
    upright, as_stored = ImageSource([tmp_path], upright=True), ImageSource([tmp_path])
    turned, stored = np.asarray(upright.open_rgb(file)), as_stored.open_rgb(file)
    # JPEG is not lossless; a wrong turn differs by more than 50 in the mean.
    assert np.abs(turned.astype(int) - np.asarray(COLOURS)).mean() <= (3 if file == "a.jpg" else 0)
    by_pillow = file == "a.tif"  # which turns it before anyone asks
    expected = (
        turned
        if by_pillow
        else np.asarray(Image.fromarray(turned).transpose(STORED_BY[orientation]))
    )
    assert np.array_equal(np.asarray(stored), expected)
    assert as_stored.lying == (set() if by_pillow else {file})
    assert not upright.lying


def test_grey_of_16_bits_is_turned_too(tmp_path):
    save_lying(Image.fromarray(SIXTEEN), tmp_path / "a.png", 6)
    assert np.array_equal(
        ImageSource([tmp_path], upright=True).open_rgb("a.png"), np.dstack([EIGHT] * 3)
    )


def test_a_picture_with_damaged_exif_data_is_read_as_it_is_stored_and_named(tmp_path, caplog):
    COLOURS.save(tmp_path / "a.png", exif=b"Exif\0\0MM\0*\0\0")
    assert ImageSource([tmp_path], upright=True).open_rgb("a.png").tobytes() == COLOURS.tobytes()
    assert "a.png" in caplog.text


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
    "big-endian TIFF": stored(
        Image.frombytes("I;16B", (64, 8), SIXTEEN.astype(">u2").tobytes()), "TIFF"
    ),
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
    with refused(DataError, "x.tif", "32 values"):
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
    script = (
        "import sys; from recap.data.files.images import ImageSource; "
        "ImageSource([sys.argv[1]]).open_rgb('x.jpg')"
    )
    path = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path], env=path, capture_output=True, text=True
    )
    assert "truncated or no picture" in done.stderr
    assert not (tmp_path / "ran").exists()


def test_a_web_picture_wider_than_a_jpeg_may_be_is_a_failure_of_its_own():
    with pytest.raises(Failure) as caught:
        shrunk(stored(Image.new("L", (70_000, 2)), "PNG"), min_side=384)
    assert (caught.value.status, caught.value.detail) == (
        "too large",
        "70000 x 2 pixels; a JPEG's side has 65500",
    )
    # Scaled down first, its longer side fits.
    assert shrunk(stored(Image.new("L", (70_000, 800)), "PNG"), min_side=384)[1][0] == 33_600
