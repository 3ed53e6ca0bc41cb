import numpy as np
import pytest

from recap.core.errors import FeatureError, RecapError
from recap.features import packing
from recap.features.records import ImageFeatures
from recap.features.store import FeatureStore
from recap.features.writer import build_store

ABOUT = {"extractor": "{}", "extractor_hash": "e" * 16, "weights_sha256": "w" * 64, "made_with": "test"}
IDS = list(range(10, 24))


class Counting:
    """An extractor that counts what it is asked for and can break at an image."""

    def __init__(self, stop_at=None, change=lambda image_id, values: values):
        self.seen, self.stop_at, self.change = [], stop_at, change

    def __call__(self, groups):
        for image_id in (image_id for group in groups for image_id in group):
            if image_id == self.stop_at:
                raise KeyboardInterrupt
            self.seen.append(image_id)
            values = np.random.default_rng(image_id).normal(size=(4, 3)).astype(np.float32)
            yield ImageFeatures(image_id, (5, 6), self.change(image_id, values))


def build(folder, extract, *, ids=IDS, job="a" * 16, dtype="float16"):
    build_store(
        out=folder / "f.h5",
        shards=folder / "shards",
        ids=ids,
        shard_size=4,
        dtype=dtype,
        job=job,
        attributes=ABOUT,
        extract=extract,
    )
    return folder / "f.h5"


def interrupted(folder, stop_at, job="a" * 16):
    with pytest.raises(KeyboardInterrupt):
        build(folder, Counting(stop_at=stop_at), job=job)


def test_interrupted_run_goes_on_and_ends_with_the_same_bytes(tmp_path):
    whole = build(tmp_path / "whole", Counting())
    broken = tmp_path / "broken"
    interrupted(broken, stop_at=20)
    assert not (broken / "f.h5").exists()
    second = Counting()
    assert build(broken, second).read_bytes() == whole.read_bytes()
    assert second.seen == [18, 19, 20, 21, 22, 23]
    assert not (broken / "shards").exists()


def test_shards_of_another_job_are_not_used(tmp_path):
    interrupted(tmp_path, stop_at=20, job="b" * 16)
    second = Counting()
    build(tmp_path, second)
    assert second.seen == IDS
    assert not (tmp_path / "shards").exists()


def test_damaged_shard_is_made_again(tmp_path, capsys):
    whole = build(tmp_path / "whole", Counting()).read_bytes()
    interrupted(tmp_path, stop_at=20)
    first, other = sorted((tmp_path / "shards").glob("*.shard.h5"))
    content = bytearray(first.read_bytes())
    content[-1] ^= 1
    first.write_bytes(content)
    other.write_bytes(other.read_bytes()[:-10])
    second = Counting()
    assert build(tmp_path, second).read_bytes() == whole
    assert second.seen == IDS
    assert first.name in capsys.readouterr().err


def test_finished_store_is_left_alone_and_one_of_another_job_is_replaced(tmp_path):
    build(tmp_path, Counting())
    second = Counting()
    build(tmp_path, second)
    assert second.seen == []
    build(tmp_path, second, job="b" * 16)
    assert second.seen == IDS
    assert FeatureStore(tmp_path / "f.h5").attributes["job"] == "b" * 16


def test_other_files_in_the_shards_folder_stay(tmp_path):
    (tmp_path / "shards").mkdir()
    (tmp_path / "shards" / "notes.txt").write_text("mine")
    build(tmp_path, Counting())
    assert [path.name for path in (tmp_path / "shards").iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (lambda v: v * np.nan, "NaN or infinite values"),
        (lambda v: v + np.inf, "NaN or infinite values"),
        (lambda v: v * 0 + 1e5, "exceed the range of float16; set `dtype: float32`"),
        (lambda v: v[:, :2], r"shape \[4, 2\], expected \[rows, 3\]"),
        (lambda v: v[:0], "shape"),
    ],
)
def test_unusable_features_are_refused_with_the_image_id(tmp_path, bad, words):
    extract = Counting(change=lambda image_id, values: bad(values) if image_id == 15 else values)
    with pytest.raises(FeatureError, match=f"image id 15: .*{words}"):
        build(tmp_path, extract)
    assert not (tmp_path / "f.h5").exists()


def test_large_values_fit_into_float32(tmp_path):
    build(tmp_path, Counting(change=lambda image_id, values: values * 0 + 1e5), dtype="float32")
    assert FeatureStore(tmp_path / "f.h5").read([10])[0].max() == 1e5


def test_extractor_that_loses_the_order_is_refused(tmp_path):
    def swapped(groups):
        yield from Counting()([group[::-1] for group in groups])

    with pytest.raises(FeatureError, match="gave image id 13 where 10 was asked for"):
        build(tmp_path, swapped)


def test_corpus_without_images_is_refused(tmp_path):
    with pytest.raises(FeatureError, match="no images"):
        build(tmp_path, Counting(), ids=[])


def test_full_disk_is_said_before_and_while_writing(tmp_path, monkeypatch):
    class Usage:
        free = 1000

    monkeypatch.setattr(packing.shutil, "disk_usage", lambda path: Usage)
    with pytest.raises(FeatureError, match=r"\.shard\.h5: needs 1.0 MiB, but only 0.0 MiB are free"):
        build(tmp_path, Counting())
    monkeypatch.setattr(packing, "_need_room", lambda path, size: None)

    def full(path):
        raise OSError("Can't write data (file write failed: errno = 28, error message = 'No space left on device')")

    monkeypatch.setattr(packing, "_new_file", full)
    with pytest.raises(RecapError, match=r"the disk is full"):
        build(tmp_path, Counting())
    assert list((tmp_path / "shards").iterdir()) == []
