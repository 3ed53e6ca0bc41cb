"""Trainings of a backbone: on the boxes of scenes, and on the words of captions."""

import json
import math
import random
import re

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch.nn.functional import binary_cross_entropy

from helpers.prepared import write_scenes
from helpers.refusals import refused
from recap.cli import main
from recap.core.errors import FeatureError
from recap.features import training
from recap.features.training import cell_labels, word_loss
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


TUNING = {"words": 30, "least_images": 4, "epochs": 4, "learning_rate": 1e-3, "images_per_batch": 8}


def tune(scenes, out, **changes):
    spec = GridFeatures(**SPEC | {"weights": "random"}, word_tuning={**TUNING, **changes})
    given = {
        "corpus": scenes / "corpus.parquet",
        "images": [scenes / "images.zip"],
        "inputs": scenes,
    }
    training.tune(spec=spec, **given, device="cpu", threads=1, out=out)
    return spec


def test_tuning_learns_and_repeats_bit_for_bit(scenes, tmp_path, capsys):
    tune(scenes, tmp_path / "a.safetensors")
    lines = capsys.readouterr().err.splitlines()
    by_shares, *by_epoch = [
        float(number) for number in re.findall(r"on validation (\d\.\d+)", "".join(lines))
    ]
    assert len(by_epoch) == 4 and min(by_epoch) < 0.97 * by_shares
    tune(scenes, tmp_path / "b.safetensors")
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()


def test_the_epoch_with_the_lowest_validation_loss_is_kept(scenes, tmp_path, monkeypatch):
    def kept(name, *losses):
        given = iter([0.5, *losses])  # before the first epoch, and after each
        monkeypatch.setattr("recap.features.training.mean_loss", lambda *_: next(given))
        tune(scenes, tmp_path / name, epochs=len(losses))
        return (tmp_path / name).read_bytes()

    assert kept("first", 0.3, 0.4) == kept("again", 0.3, 0.9) != kept("second", 0.4, 0.3)
    with refused(FeatureError, "learning_rate"):
        kept("none", math.nan)
    assert not (tmp_path / "none").exists()


def test_norms_keep_their_statistics_and_weights_move(scenes, tmp_path):
    tune(scenes, tmp_path / "short.safetensors", epochs=1)
    tune(scenes, tmp_path / "long.safetensors", epochs=2)
    short, long = (load_file(tmp_path / f"{name}.safetensors") for name in ("short", "long"))
    statistics = [name for name in short if "running" in name]
    assert statistics and all(torch.equal(short[name], long[name]) for name in statistics)
    assert not torch.equal(short["conv1.0.weight"], long["conv1.0.weight"])


def test_the_loss_is_that_of_at_least_one_cell():
    torch.manual_seed(0)
    scores, labels = torch.randn(3, 5, 4, dtype=torch.float64) - 2, torch.rand(2, 5) < 0.5
    absent = (1 - scores.sigmoid()).prod(-1)
    seen = torch.stack([1 - absent[0] * absent[1], 1 - absent[2]])  # the first image has two views
    expected = binary_cross_entropy(seen, labels.double())
    torch.testing.assert_close(word_loss(scores, [2, 1], labels), expected)
    assert word_loss(scores - 100, [2, 1], labels).isfinite()
