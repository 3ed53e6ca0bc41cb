import json

import numpy as np
import pytest

from helpers.feature_stores import store_of
from helpers.refusals import refused
from recap.core.errors import FeatureError, MissingFile, RecapError
from recap.features import write
from recap.features.records import ImageFeatures
from recap.features.store import FeatureStore
from recap.features.write import Part, merge_parts

IDS = list(range(10, 24))


class Counting:
    """An extractor that counts what it is asked for and can break at an image."""

    def __init__(self, stop_at=None, change=lambda image_id, values: values, rows=4):
        self.seen, self.stop_at, self.change, self.rows = [], stop_at, change, rows

    def __call__(self, groups):
        for image_id in (image_id for group in groups for image_id in group):
            if image_id == self.stop_at:
                raise KeyboardInterrupt
            self.seen.append(image_id)
            values = np.random.default_rng(image_id).normal(size=(self.rows, 3)).astype(np.float32)
            yield ImageFeatures(image_id, (5, 6), self.change(image_id, values))


def build(folder, extract, *, ids=IDS, dtype="float16", **more):
    shards = folder / "shards"
    return store_of(
        folder / "f.h5", ids, extract=extract, shards=shards, shard_size=4, dtype=dtype, **more
    )


def interrupted(folder, stop_at, job="0" * 16):
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


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        (lambda v: v * np.nan, ["NaN"]),
        (lambda v: v + np.inf, ["infinite"]),
        (lambda v: v * 0 + 1e5, ["float16", "`dtype: float32`"]),
        (lambda v: v[:, :2], ["['rows', 2]", "['rows', 3]"]),
        (lambda v: v[:0], ["[0, 3]"]),
    ],
)
def test_unusable_features_are_refused_with_the_image_id(tmp_path, bad, named):
    extract = Counting(change=lambda image_id, values: bad(values) if image_id == 15 else values)
    with refused(FeatureError, "image id 15", *named):
        build(tmp_path, extract)
    assert not (tmp_path / "f.h5").exists()


def test_store_grows_by_the_new_images_alone_and_equals_one_made_at_once(tmp_path):
    whole = build(tmp_path / "whole", Counting()).read_bytes()
    kept = tmp_path / "kept" / "f.h5"
    build(tmp_path, Counting(), ids=[12, 10, 23, 17], kept=kept)
    (tmp_path / "f.h5").unlink()  # as Snakemake does before a job runs again
    second = Counting()
    assert build(tmp_path, second, kept=kept).read_bytes() == whole
    assert second.seen == [image_id for image_id in IDS if image_id not in (10, 12, 17, 23)]
    assert not (tmp_path / "shards").exists()


def test_store_that_is_kept_loses_no_image_when_fewer_are_asked_for_and_is_not_copied(
    tmp_path, monkeypatch
):
    kept = tmp_path / "kept.h5"
    path = build(tmp_path, Counting(), kept=kept)
    whole = path.read_bytes()
    path.unlink()
    monkeypatch.setattr(write, "_fill", lambda *arguments: pytest.fail("copied"))
    fewer = Counting()
    assert build(tmp_path, fewer, ids=IDS[3:6], kept=kept).read_bytes() == whole
    assert path.samefile(kept)
    assert fewer.seen == []
    monkeypatch.undo()
    path.unlink()
    other = Counting()
    assert FeatureStore(build(tmp_path, other, ids=[1, 12], kept=kept)).ids.tolist() == [1, *IDS]
    assert other.seen == [1]
    path.unlink()
    build(tmp_path, other, ids=[1, 12], kept=kept, job="b" * 16)
    assert FeatureStore(path).ids.tolist() == [1, 12]


def parts_of(folder, numbers, count=3, extract=None, **more):
    for number in numbers:
        part = Part.of(f"{number}/{count}", folder / f"{number}.json")
        build(folder, extract or Counting(), part=part, **more)
    return [folder / f"{number}.json" for number in range(1, count + 1)]


def test_parts_in_any_order_give_the_bytes_of_one(tmp_path):
    whole = build(tmp_path / "whole", Counting()).read_bytes()
    counting = Counting()
    files = parts_of(tmp_path, [3, 1, 2], extract=counting)
    assert sorted(counting.seen) == IDS
    assert not (tmp_path / "f.h5").exists()
    merge_parts(files, tmp_path / "f.h5", shards=tmp_path / "shards", kept=tmp_path / "kept.h5")
    assert (tmp_path / "f.h5").read_bytes() == whole
    assert (tmp_path / "kept.h5").samefile(tmp_path / "f.h5")
    assert not (tmp_path / "shards").exists()


def test_parts_extract_what_a_kept_store_has_not(tmp_path):
    whole = build(tmp_path / "whole", Counting()).read_bytes()
    kept = tmp_path / "kept.h5"
    build(tmp_path, Counting(), ids=IDS[::3], kept=kept).unlink()
    counting = Counting()
    files = parts_of(tmp_path, [2, 1], count=2, extract=counting, kept=kept)
    merge_parts(files, tmp_path / "f.h5", shards=tmp_path / "shards", kept=kept)
    assert (tmp_path / "f.h5").read_bytes() == kept.read_bytes() == whole
    assert sorted(counting.seen) == sorted(set(IDS) - set(IDS[::3]))


def test_a_part_that_is_missing_or_of_another_machine_is_named(tmp_path):
    files = parts_of(tmp_path, [1, 2])
    with refused(MissingFile, "3.json"):
        merge_parts(files, tmp_path / "f.h5", shards=tmp_path / "shards", kept=None)
    parts_of(tmp_path, [3])
    other = json.loads(files[2].read_text())
    files[2].write_text(
        json.dumps({**other, "header": {**other["header"], "made_with": "another GPU"}})
    )
    with refused(FeatureError, "3.json", "made_with", "1.json"):
        merge_parts(files, tmp_path / "f.h5", shards=tmp_path / "shards", kept=None)
    files[2].write_text(json.dumps(other))
    next((tmp_path / "shards").glob("*.shard.h5")).unlink()
    with refused(FeatureError, "shards", "image id 1"):  # 10 or 14: names of shards are hashes
        merge_parts(files, tmp_path / "f.h5", shards=tmp_path / "shards", kept=None)


def test_merge_holds_one_shard_twice_at_most_and_goes_on_wherever_it_is_stopped(
    tmp_path, monkeypatch
):
    whole = build(tmp_path / "whole", Counting(rows=40_000)).read_bytes()
    fill, sizes = write._fill, []

    def measured(path, *arguments):
        fill(path, *arguments)
        if not path.name.endswith(write.MERGING):
            return
        sizes.append(sum(path.stat().st_blocks * 512 for path in (tmp_path / "shards").iterdir()))
        if len(sizes) in (1, 3):
            raise KeyboardInterrupt

    monkeypatch.setattr(write, "_fill", measured)
    counting = Counting(rows=40_000)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            build(tmp_path, counting)
    assert build(tmp_path, counting).read_bytes() == whole
    assert counting.seen == IDS
    assert max(sizes) < len(whole) * (1 + 4 / 14) + 2**18


def test_place_that_cannot_be_written_is_said_before_any_work(tmp_path):
    def extract(groups):
        raise AssertionError("asked for features")

    (tmp_path / "file").write_text("")
    for out, shards, named in [
        ("file/f.h5", "shards", "file/f.h5: "),
        ("f.h5", "file", "file/shard: "),
        ("a" * 300 + "/f.h5", "shards", "file name too long"),
    ]:
        with refused(RecapError, named):
            store_of(tmp_path / out, [1], extract=extract, shards=tmp_path / shards)
