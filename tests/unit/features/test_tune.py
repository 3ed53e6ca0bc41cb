"""A backbone is tuned to name the words of training captions."""

import math
import re

import pytest
import torch
from safetensors.torch import load_file
from torch.nn.functional import binary_cross_entropy

from helpers.prepared import write_scenes
from helpers.refusals import refused
from recap.core.errors import FeatureError
from recap.features import training
from recap.features.training import word_loss
from recap.settings.features import GridFeatures

pytestmark = pytest.mark.seconds

SPEC = {"kind": "grid", "backbone": "test_resnet", "weights": "random", "out_index": 3, "image_size": 64, "grid": 4}
TUNING = {"words": 30, "least_images": 4, "epochs": 4, "learning_rate": 1e-3, "images_per_batch": 8}


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    return write_scenes(tmp_path_factory.mktemp("scenes"), "scenes", train=48, val=2, test=2, size=64).parent


def tune(scenes, out, **changes):
    spec = GridFeatures(**SPEC, word_tuning={**TUNING, **changes})
    given = {"corpus": scenes / "corpus.parquet", "images": [scenes / "images.zip"], "inputs": scenes}
    training.tune(spec=spec, **given, device="cpu", threads=1, out=out)
    return spec


def test_it_learns_and_repeats_bit_for_bit(scenes, tmp_path, capsys):
    tune(scenes, tmp_path / "a.safetensors")
    lines = capsys.readouterr().err.splitlines()
    by_shares, *by_epoch = [float(number) for number in re.findall(r"on validation (\d\.\d+)", "".join(lines))]
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
