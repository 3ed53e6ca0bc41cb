"""An unfinished extraction or import follows the bytes
of its pictures and files, not their names and sizes."""

import json
import os
import time
import zipfile

import numpy as np
import pytest

from helpers.feature_files import SIZES, regions, six_columns, text, write_lines
from helpers.feature_stores import store_of
from helpers.importing import import_job
from helpers.refusals import refused
from recap.core.errors import FeatureError
from recap.data.files.images import ImageSource
from recap.features import importers
from recap.features.origins import Notes, Origins, of_files, of_pictures
from recap.features.records import ImageFeatures
from recap.features.store import FeatureStore
from recap.settings.features import FORMATS, ImportedFeatures

IDS = list(range(8))


class Pictures:
    """Files with a number in them, and an extractor that gives this number and can be
    interrupted."""

    def __init__(self, folder):
        self.folder, self.read = folder, []
        folder.mkdir()
        for image_id in IDS:
            self.put(image_id, image_id)

    def put(self, image_id, number, *, age=100):
        path = self.folder / f"{image_id}.jpg"
        path.unlink(missing_ok=True)
        path.write_text(f"{number:04d}")
        os.utime(path, (time.time() - age,) * 2)

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

    def build(self, root, images=None, stop_at=None):
        origins = of_pictures(
            ImageSource([images or self.folder]),
            {image_id: [f"{image_id}.jpg"] for image_id in IDS},
        )
        path = store_of(
            root / "f.h5", IDS, extract=self.extract(stop_at), shard_size=2, origins=origins
        )
        return FeatureStore(path).read(IDS)[0][:, 0, 0].tolist()

    def interrupted(self, root, images=None):
        with pytest.raises(KeyboardInterrupt):
            self.build(root, images, stop_at=6)


@pytest.fixture
def pictures(tmp_path):
    return Pictures(tmp_path / "pictures")


def same_size_and_time(path, text):
    """Write other bytes into a file, and set its size and time back."""
    before = path.stat()
    path.write_text(text)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)


def test_only_the_shard_of_a_replaced_picture_is_made_again(pictures, tmp_path):
    pictures.interrupted(tmp_path)
    same_size_and_time(pictures.folder / "3.jpg", "0033")
    assert pictures.build(tmp_path) == [0, 1, 2, 33, 4, 5, 6, 7]
    assert pictures.read == [2, 3, 6, 7]


def test_touched_and_copied_pictures_are_read_again_but_not_extracted_again(pictures, tmp_path):
    pictures.interrupted(tmp_path)
    for image_id in IDS:
        pictures.put(image_id, image_id, age=1000)
    assert pictures.build(tmp_path) == IDS
    assert pictures.read == [6, 7]


def test_finished_store_is_made_again_from_changed_pictures(pictures, tmp_path):
    pictures.build(tmp_path)
    assert pictures.build(tmp_path) == IDS
    assert pictures.read == []
    same_size_and_time(pictures.folder / "7.jpg", "0077")
    assert pictures.build(tmp_path)[7] == 77


def test_picture_that_changes_while_it_is_read_stops_the_job_and_leaves_whole_shards(
    pictures, tmp_path
):
    extract = pictures.extract

    def changing(stop_at=None):
        def give(groups):
            for record in extract()(groups):
                if record.image_id == 5:
                    same_size_and_time(pictures.folder / "4.jpg", "0044")
                yield record

        return give

    pictures.extract = changing
    with refused(FeatureError, "image id 4"):
        pictures.build(tmp_path)
    pictures.extract = extract
    assert pictures.build(tmp_path) == [0, 1, 2, 3, 44, 5, 6, 7]
    assert pictures.read == [4, 5, 6, 7]


def test_entries_of_a_zip_are_told_apart_by_their_crc(pictures, tmp_path):
    def pack():
        with zipfile.ZipFile(tmp_path / "pictures.zip", "w") as archive:
            for image_id in IDS:
                archive.write(pictures.folder / f"{image_id}.jpg", f"{image_id}.jpg")

    pack()
    pictures.interrupted(tmp_path, tmp_path / "pictures.zip")
    same_size_and_time(pictures.folder / "0.jpg", "0090")
    pack()
    assert pictures.build(tmp_path, tmp_path / "pictures.zip") == [90, 1, 2, 3, 4, 5, 6, 7]
    assert pictures.read == [0, 1, 6, 7]


def test_notes_are_believed_of_settled_files_alone(pictures, tmp_path):
    reads = []

    plain = of_files(lambda image_id: [pictures.folder / f"{image_id}.jpg"])
    files = Origins(plain.mark, lambda image_id: reads.append(image_id) or plain.content(image_id))
    notes = Notes(files, [0], [])
    (content,) = notes.take([0])
    notes.write(tmp_path / "notes.json", [0])
    # Written a moment ago: it may be written again at the same tick of the clock.
    assert json.loads((tmp_path / "notes.json").read_text())["0"] == {
        "mark": None,
        "content": content,
    }
    (tmp_path / "damaged.json").write_text('{"0": {"mark": [[4')
    for name in ("notes.json", "damaged.json", "none.json"):
        assert Notes(files, [0], [tmp_path / name]).content(0) == content
    assert reads == [0] * 4


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
            return given, importers.import_features(
                spec, import_job(folder, inputs=source.parent, out=folder / "f.h5")
            )
        except KeyboardInterrupt:
            return given, None


def test_import_of_a_tsv_makes_again_the_lines_that_changed(tmp_path):
    lines = {image_id: six_columns(image_id) for image_id in sorted(SIZES)}
    path = write_lines(tmp_path / "a.tsv", list(lines.values()))
    assert bring(tmp_path, "bottom_up_tsv", path, stop_after=2)[0] == [7, 42]
    vectors = regions(42)[0] + 1
    lines[42] = b"\t".join([*lines[42].split(b"\t")[:-1], text(vectors)])
    write_lines(path, list(lines.values()))
    given, store = bring(tmp_path, "bottom_up_tsv", path)
    assert given == [42, 123]
    np.testing.assert_array_equal(store.read([42])[0][0], vectors)
    np.testing.assert_array_equal(store.read([7])[0][0], regions(7)[0])
