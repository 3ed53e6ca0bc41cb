"""What an earlier run left is used again only where pictures and files have not changed since."""

import os
import time
import zipfile

import numpy as np
import pytest

from helpers.feature_files import SIZES, regions, six_columns, text, write_lines
from helpers.feature_stores import store_of
from helpers.importing import import_job
from recap.features import importers
from recap.features.records import ImageFeatures
from recap.features.store import FeatureStore
from recap.settings.features import FORMATS, ImportedFeatures

IDS = list(range(8))
CLOCK = 0.02  # seconds; the times of files are those of a coarser clock


class Pictures:
    """Files with a number in them, and an extractor that gives this number and can be
    interrupted."""

    def __init__(self, folder):
        self.folder, self.read = folder, []
        folder.mkdir()
        for image_id in IDS:
            self.put(image_id, image_id)

    def put(self, image_id, number):
        (self.folder / f"{image_id}.jpg").write_text(f"{number:04d}")

    def extract(self, stop_at=None):
        self.read = []

        def give(groups):
            for image_id in (image_id for group in groups for image_id in group):
                if image_id == stop_at:
                    raise KeyboardInterrupt
                self.read.append(image_id)
                number = float((self.folder / f"{image_id}.jpg").read_text())
                yield ImageFeatures(image_id, (5, 6), np.full((2, 3), number))

        return give

    def files(self, image_id):
        return [self.folder / f"{image_id}.jpg"]

    def build(self, root, stop_at=None, **more):
        time.sleep(CLOCK)
        extract = self.extract(stop_at)
        path = store_of(root / "f.h5", IDS, extract=extract, shard_size=2, files=self.files, **more)
        time.sleep(CLOCK)
        return FeatureStore(path).read(IDS)[0][:, 0, 0].tolist()

    def interrupted(self, root):
        with pytest.raises(KeyboardInterrupt):
            self.build(root, stop_at=6)
        time.sleep(CLOCK)


@pytest.fixture
def pictures(tmp_path):
    return Pictures(tmp_path / "pictures")


def same_size_and_time(path, text):
    """Write other bytes into a file, and set its size and time back."""
    before = path.stat()
    path.write_text(text)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)


def test_replaced_picture_of_an_unfinished_store_is_extracted_again(pictures, tmp_path):
    pictures.interrupted(tmp_path)
    same_size_and_time(pictures.folder / "3.jpg", "0033")
    assert pictures.build(tmp_path) == [0, 1, 2, 33, 4, 5, 6, 7]
    assert pictures.read == [3, 6, 7]


def test_finished_store_is_made_again_from_changed_pictures(pictures, tmp_path, capsys):
    pictures.build(tmp_path)
    assert pictures.build(tmp_path) == IDS
    assert pictures.read == []
    same_size_and_time(pictures.folder / "7.jpg", "0077")
    assert pictures.build(tmp_path)[7] == 77
    assert "files have changed" in capsys.readouterr().err


def test_store_that_grows_drops_images_that_changed_or_are_gone(pictures, tmp_path):
    kept = tmp_path / "kept.h5"
    pictures.build(tmp_path, kept=kept)
    same_size_and_time(pictures.folder / "7.jpg", "0077")
    before = pictures.files
    pictures.files = lambda image_id: None if image_id == 6 else before(image_id)
    store_of(tmp_path / "few.h5", [1], extract=pictures.extract(), files=pictures.files, kept=kept)
    assert FeatureStore(kept).ids.tolist() == [0, 1, 2, 3, 4, 5]
    assert pictures.read == []


def test_pictures_in_a_changed_zip_are_extracted_again(pictures, tmp_path):
    def pack():
        with zipfile.ZipFile(tmp_path / "pictures.zip", "w") as archive:
            for image_id in IDS:
                archive.write(pictures.folder / f"{image_id}.jpg", f"{image_id}.jpg")

    pictures.files = lambda image_id: [tmp_path / "pictures.zip"]
    pack()
    pictures.interrupted(tmp_path)
    assert pictures.build(tmp_path) == IDS
    assert pictures.read == [6, 7]
    pictures.put(0, 90)
    pack()
    assert pictures.build(tmp_path) == [90, 1, 2, 3, 4, 5, 6, 7]
    assert pictures.read == IDS


def bring(folder, format, source, stop_after=None):
    spec = ImportedFeatures(
        kind="imported", format=format, sources=[source.name], dtype="float32", shard_size=1
    )
    given, reader = [], FORMATS.get(format)

    class Interrupted(reader):
        def read(self, image_id):
            if len(given) == stop_after:
                raise KeyboardInterrupt
            given.append(image_id)
            return super().read(image_id)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FORMATS, "get", lambda name: Interrupted)
        try:
            importers.import_features(
                spec, import_job(folder, inputs=source.parent, out=folder / "f.h5")
            )
            return given, FeatureStore(folder / "f.h5")
        except KeyboardInterrupt:
            return given, None


def test_import_of_a_changed_tsv_begins_anew(tmp_path):
    lines = {image_id: six_columns(image_id) for image_id in sorted(SIZES)}
    path = write_lines(tmp_path / "a.tsv", list(lines.values()))
    time.sleep(CLOCK)
    assert bring(tmp_path, "bottom_up_tsv", path, stop_after=2)[0] == [7, 42]
    time.sleep(CLOCK)
    vectors = regions(42)[0] + 1
    lines[42] = b"\t".join([*lines[42].split(b"\t")[:-1], text(vectors)])
    write_lines(path, list(lines.values()))
    given, store = bring(tmp_path, "bottom_up_tsv", path)
    assert given == [7, 42, 123]
    np.testing.assert_array_equal(store.read([42])[0][0], vectors)
    np.testing.assert_array_equal(store.read([7])[0][0], regions(7)[0])
