"""The stages of benchmarks/coco_sized.py, on captions of 60 images."""

from contextlib import nullcontext

import pytest
from benchmarks.coco_captions import LENGTHS, SHORTEST, Sentences, split_sizes, write_dataset
from benchmarks.coco_sized import exponent
from benchmarks.coco_stages import STAGES

from recap.data.corpus import Corpus

pytestmark = pytest.mark.seconds


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("sized") / "60"
    found.mkdir()
    write_dataset(found, 60, Sentences.invented())
    return found


def test_stages_follow_each_other(folder):
    light = [name for name in STAGES if name not in ("epoch", "evaluation")]  # gigabytes, and Java
    items = {name: STAGES[name](folder, nullcontext) for name in light}
    assert items["corpus"] == items["card"] == 72 * 5
    assert items["captions_as_ids"] == items["document_frequencies"] == 60 * 5
    assert (items["thin_store"], items["start_xe"], items["start_scst"], items["validation"]) == (72, 60, 60, 6)


def test_captions_have_the_lengths_and_ids_of_cocos(folder):
    corpus = Corpus.read(folder / "corpus.parquet")
    lengths = [len(words) for words in corpus.each_token_list()]
    assert SHORTEST <= min(lengths) <= max(lengths) < SHORTEST + len(LENGTHS)
    assert not (corpus.image_id[1:] >= corpus.image_id[:-1]).all()  # ids of captions are in no order of images


def test_the_largest_size_has_the_splits_of_coco():
    assert split_sizes(113_287) == {"train": 113_287, "val": 5_000, "test": 5_000}


def test_the_exponent_leaves_out_what_the_smallest_size_takes():
    sizes = [{"items": n, "cpu_seconds": 3 + 1e-4 * n**1.5} for n in (10, 10_000, 100_000)]
    assert exponent(sizes) == pytest.approx(1.5, abs=0.02)
    assert exponent(sizes[:2]) is None
    assert exponent([{**each, "cpu_seconds": 1.0} for each in sizes]) is None
