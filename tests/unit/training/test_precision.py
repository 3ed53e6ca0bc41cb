"""`precision: auto` trains as the number type that it chose, says so, and keeps to it."""

import json

import pytest
import torch
import yaml

from helpers.prepared import XE, prepare
from helpers.training import CONFIG, training
from recap.core import device as precision
from recap.core.errors import TrainingError
from recap.settings.recipes import CrossEntropy, CrossEntropyRun
from recap.training.distributed import Group
from recap.training.run import with_precision


@pytest.fixture
def spec():
    stage = CrossEntropy(epochs=1, learning_rate=0.01, images_per_batch=5, precision="auto")
    names = dict.fromkeys(("dataset", "subset", "features", "model", "recipe"), "tiny")
    return CrossEntropyRun(**names, stage="xe", model_settings=CONFIG, stage_settings=stage, seed=1)


@pytest.fixture
def chosen(tmp_path, monkeypatch):
    """Choose for a training on a processor with units for bf16 or without."""

    def choose(spec, *, unit):
        monkeypatch.setattr(precision, "bf16_unit", lambda _: unit)
        return with_precision(spec, Group(), tmp_path).stage_settings.precision

    return choose


def test_a_training_keeps_what_it_began_with_and_another_one_decides_again(chosen, spec):
    assert chosen(spec, unit="avx512_bf16") == "bf16"
    assert chosen(spec, unit=None) == "bf16"
    assert chosen(spec.model_copy(update={"seed": 2}), unit=None) == "float32"


@pytest.mark.parametrize(
    ("precision", "kind"), [("bf16", TrainingError), ("float32", RuntimeError)]
)
def test_a_first_step_that_fails_in_bf16_says_what_to_set(tmp_path, precision, kind):
    loop = training(tmp_path, stage=CrossEntropy(epochs=1, learning_rate=0.01, precision=precision))
    loop.model.output.register_forward_hook(lambda module, inputs, out: out @ torch.eye(2))
    with pytest.raises(kind) as failure:
        loop.run()
    assert ("precision: float32" in str(failure.value)) is (precision == "bf16")


@pytest.mark.slow
def test_a_run_says_what_was_chosen_and_equals_a_run_with_that_precision(tmp_path):
    prepared = prepare(tmp_path)
    result = prepared.train("auto", stage_settings={**XE, "precision": "auto"})
    assert result.returncode == 0, result.stderr
    config = yaml.safe_load((tmp_path / "auto/run/config.yaml").read_text())
    kind = config["spec"]["stage_settings"]["precision"]
    assert f"precision: {kind}" in result.stderr
    result = prepared.train("same", stage_settings={**XE, "precision": kind})
    assert result.returncode == 0, result.stderr
    weights = [
        (tmp_path / name / "run/model.safetensors").read_bytes() for name in ("auto", "same")
    ]
    assert weights[0] == weights[1]
    accounts = [
        json.loads((tmp_path / name / "run/training.json").read_text()) for name in ("auto", "same")
    ]
    assert accounts[0]["config_hash"] == accounts[1]["config_hash"]
