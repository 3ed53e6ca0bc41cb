"""The built-in data set: same bytes, no scene twice,
and captions that are true of the painted boxes."""

import hashlib
import itertools
import json
import subprocess
import sys
from operator import itemgetter

import numpy as np
import pytest

from recap.data.corpus import Corpus, build_corpus
from recap.data.datasets.scene_captions import is_true, read_truth
from recap.data.datasets.scenes import distinct_scenes
from recap.data.files.images import ImageSource

pytestmark = pytest.mark.seconds

SPEC = {"kind": "scenes", "train": 110, "val": 15, "test": 25, "size": 112, "seed": 3}
NAMES = ("images.zip", "boxes.json", "corpus.parquet")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    out = tmp_path_factory.mktemp("scenes")
    build_corpus(name="scenes", spec=SPEC, inputs=out, out=out)
    return out


@pytest.fixture(scope="module")
def records(built):
    return {
        image["image_id"]: image
        for image in json.loads((built / "boxes.json").read_text())["images"]
    }


def digests(folder):
    return [hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in NAMES]


def test_the_same_bytes_in_another_process(built, tmp_path):
    code = (
        "import sys, json; from pathlib import Path; from recap.data.corpus import build_corpus;"
        "build_corpus(name='scenes', spec=json.loads(sys.argv[1]), inputs=Path('.'), "
        "out=Path(sys.argv[2]))"
    )
    subprocess.run(
        [sys.executable, "-c", code, json.dumps(SPEC), str(tmp_path)], check=True, timeout=120
    )
    assert digests(tmp_path) == digests(built)


def test_test_pictures_do_not_depend_on_the_number_of_training_pictures(built, tmp_path):
    build_corpus(name="scenes", spec={**SPEC, "train": 2}, inputs=tmp_path, out=tmp_path)
    few, many = Corpus.read(tmp_path / "corpus.parquet"), Corpus.read(built / "corpus.parquet")
    assert few.captions("test") == many.captions("test")
    file = few.files()[few.image_ids("test")[-1]]
    assert ImageSource([tmp_path / "images.zip"]).read(file) == ImageSource(
        [built / "images.zip"]
    ).read(file)


def test_no_two_pictures_share_a_description_and_nothing_lies_both_left_of_and_above_another():
    scenes = list(distinct_scenes(2000, 5, 0))
    assert len({scene.description for scene in scenes}) == 2000
    for scene in scenes:
        if len(scene.groups) == 2:
            first, second = (np.mean(group.centres, axis=0) for group in scene.groups)
            across, down = second - first
            along, aside = (across, down) if scene.arrangement == "left" else (down, across)
            assert along > abs(aside), scene


def test_five_different_captions_of_five_to_sixteen_words(built):
    corpus = Corpus.read(built / "corpus.parquet")
    for split, count in (("train", 110), ("val", 15), ("test", 25)):
        captions = corpus.captions(split)
        assert len(captions) == count
        assert all(len(set(texts)) == 5 for texts in captions.values())
    assert all(5 <= len(tokens) <= 16 for tokens in corpus.token_lists())
    assert 75 <= len({word for tokens in corpus.token_lists() for word in tokens}) <= 150


def test_objects_lie_apart_inside_the_picture_and_are_not_too_small(records):
    for record in records.values():
        boxes = [thing["box"] for thing in record["objects"]]
        assert 1 <= len(boxes) <= 5
        for left, top, right, bottom in boxes:
            assert 0 <= left < right <= 112
            assert 0 <= top < bottom <= 112
            assert max(right - left, bottom - top) >= 23
        for one, other in itertools.combinations(boxes, 2):
            assert (
                one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
            )


def holds(relation, subject, target):
    """Whether every subject box lies wholly on the said side of every target box."""
    axis = 0 if relation in ("left", "right") else 1
    first, second = (subject, target) if relation in ("left", "above") else (target, subject)
    return max(thing["box"][axis + 2] for thing in first) <= min(
        thing["box"][axis] for thing in second
    )


def test_every_caption_is_true_of_what_was_painted(built):
    truth = read_truth(built / "boxes.json")
    for image_id, texts in Corpus.read(built / "corpus.parquet").captions().items():
        assert all(is_true(text, truth[image_id]) for text in texts), texts


def test_arrangements_are_those_of_the_boxes(records):
    for record in records.values():
        arrangement = record["arrangement"]
        groups = [
            list(things) for _, things in itertools.groupby(record["objects"], itemgetter("group"))
        ]
        if len(groups) == 2:
            assert holds(arrangement, *groups), record
            continue
        middles = [
            [(t["box"][axis] + t["box"][axis + 2]) / 224 for axis in (0, 1)] for t in groups[0]
        ]
        x, y = middles[0]
        spread = [max(m[axis] for m in middles) - min(m[axis] for m in middles) for axis in (0, 1)]
        for words, true in {
            "left": x < 0.4, "right": x > 0.6, "top": y < 0.4, "bottom": y > 0.6,
            "centre": max(abs(x - 0.5), abs(y - 0.5)) < 0.1,
            "row": spread[1] < 0.05, "column": spread[0] < 0.05, "scattered": min(spread) > 0.1,
        }.items():  # fmt: skip
            assert true or words not in arrangement, record
