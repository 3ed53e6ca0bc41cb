"""The stages of benchmarks/coco_sized.py, on captions of 60 images."""

from contextlib import nullcontext

import pytest
from benchmarks.coco_captions import Sentences, write_dataset
from benchmarks.coco_stages import STAGES

pytestmark = pytest.mark.seconds


def test_stages_follow_each_other(tmp_path):
    folder = tmp_path / "60"
    folder.mkdir()
    write_dataset(folder, 60, Sentences.invented())
    light = [name for name in STAGES if name not in ("epoch", "evaluation")]  # gigabytes, and Java
    items = {name: STAGES[name](folder, nullcontext) for name in light}
    assert items["corpus"] == items["card"] == 72 * 5
    assert items["captions_as_ids"] == items["document_frequencies"] == 60 * 5
    assert (items["thin_store"], items["start_xe"], items["start_scst"], items["validation"]) == (
        72,
        60,
        60,
        6,
    )
