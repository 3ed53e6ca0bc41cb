"""The training of a backbone on the boxes of scenes."""

import json
import random

import numpy as np
import pytest

from helpers.prepared import write_scenes
from recap.cli import main
from recap.features import training
from recap.features.training import cell_labels
from recap.settings.features import GridFeatures

pytestmark = pytest.mark.seconds

SPEC = {
    "kind": "grid",
    "backbone": "test_resnet",
    "weights": "boxes",
    "out_index": 3,
    "image_size": 64,
    "grid": 4,
}
KNOWN = {"shape": ["ring", "star"], "colour": ["red"], "size": ["small"], "texture": ["plain"]}


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    return write_scenes(
        tmp_path_factory.mktemp("scenes"), "scenes", train=48, val=2, test=2, size=64
    ).parent


def pretrain(scenes, out, epochs):
    spec = GridFeatures(**SPEC, pretraining={"epochs": epochs, "images_per_batch": 8})
    boxes, images = scenes / "boxes.json", [scenes / "images.zip"]
    training.pretrain(spec=spec, boxes=boxes, images=images, device="cpu", threads=1, out=out)
    return spec


def test_it_learns_and_repeats_bit_for_bit(scenes, tmp_path, capsys):
    pretrain(scenes, tmp_path / "a.safetensors", 4)
    losses = [
        float(line.split()[-1]) for line in capsys.readouterr().err.splitlines() if "loss" in line
    ]
    assert losses[-1] < 0.6 * losses[0]
    pretrain(scenes, tmp_path / "b.safetensors", 4)
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()


def test_every_flipped_bit_in_its_weights_is_refused_before_extraction(scenes, tmp_path, capsys):
    trained, out = tmp_path / "trained.safetensors", tmp_path / "features.h5"
    spec = json.dumps({**SPEC, "pretraining": {"epochs": 1, "images_per_batch": 8}})
    images = ["--images", str(scenes / "images.zip"), "--device", "cpu", "--threads", "1"]
    boxes = ["--boxes", str(scenes / "boxes.json"), "--out", str(trained)]
    main(["run-step", "recap.features.training:pretrain", "--spec", spec, *boxes, *images])
    files = [
        "--corpus",
        str(scenes / "corpus.parquet"),
        "--inputs",
        str(tmp_path),
        "--trained",
        str(trained),
    ]
    extract = ["features", "extract", "--spec", spec, *files, *images]
    extract += ["--shards", str(tmp_path / "s"), "--out", str(out)]
    whole, chance = trained.read_bytes(), random.Random(0)
    for _ in range(20):
        flipped = bytearray(whole)
        flipped[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        trained.write_bytes(flipped)
        capsys.readouterr()
        with pytest.raises(SystemExit):
            main(extract)
        assert f"{trained}: " in capsys.readouterr().err
        assert not out.exists()
    trained.write_bytes(whole)
    main(extract)
    assert out.exists()


def test_cells_are_named_by_the_box_over_their_centre():
    item = {
        "box": [0, 20, 39, 61],
        "shape": "star",
        "colour": "red",
        "size": "small",
        "texture": "plain",
    }
    labels = cell_labels([item], (80, 80), 4, KNOWN)
    expected = np.zeros((4, 4), int)
    expected[1:3, 0:2] = 2  # rows with centres 30 and 50, columns with centres 10 and 30
    assert labels[0].tolist() == expected.tolist()
    assert labels[1].max() == 1
    assert labels[-1].nonzero().tolist() == [[2, 0]]
    tiny = cell_labels([{**item, "box": [41, 41, 45, 45]}], (80, 80), 4, KNOWN)
    assert tiny[0].nonzero().tolist() == tiny[-1].nonzero().tolist() == [[2, 2]]
