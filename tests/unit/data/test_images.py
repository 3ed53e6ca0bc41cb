import zipfile

import pytest

from helpers.generators import jpeg
from helpers.refusals import refused
from recap.core.errors import DataError
from recap.data.files.images import ImageSource


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


def test_pictures_are_rgb(places):
    picture = ImageSource(places).open_rgb("c.jpg")
    assert (picture.mode, picture.size) == ("RGB", (32, 40))
