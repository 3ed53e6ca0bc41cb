"""`precision: auto` trains as the number type that it chose, says so, and keeps to it."""

import json

import pytest
import torch
import yaml

from helpers.prepared import XE, prepare
from helpers.training import CONFIG, IMAGES, training
from recap.settings.recipes import CrossEntropy
from recap.settings.run import CrossEntropyRun
from recap.training import precision


@pytest.fixture
def spec():
    stage = CrossEntropy(epochs=1, learning_rate=0.01, images_per_batch=5, precision="auto")
    names = dict.fromkeys(("dataset", "subset", "features", "model", "recipe"), "tiny")
    return CrossEntropyRun(**names, stage="xe", model_settings=CONFIG, stage_settings=stage, seed=1)


@pytest.fixture
def chosen(tmp_path, spec):
    """Choose for a tiny training, as often as it is called."""
    loop = training(tmp_path)
    (batch,) = loop.batches.read([list(range(IMAGES))])

    def choose(spec=spec):
        return precision.choose_precision(
            spec,
            model=loop.model,
            objective=loop.step.objective,
            batch=batch,
            device=loop.group.device,
            state=tmp_path,
        )

    return choose


@pytest.fixture(autouse=True)
def units(monkeypatch):
    """This processor has units for bf16, whichever it is."""
    monkeypatch.setattr(precision, "product_seconds", lambda _: {"float32": 2.0, "bf16": 1.0})


@pytest.mark.parametrize("float32, bf16, expected", [(1.0, 0.5, "bf16"), (1.0, 0.95, "float32"), (1.0, 2.0, "float32")])
def test_bf16_is_chosen_where_a_step_takes_clearly_less_time(chosen, monkeypatch, float32, bf16, expected):
    monkeypatch.setattr(precision, "step_seconds", lambda *_: {"float32": float32, "bf16": bf16})
    assert chosen() == expected


def test_no_step_is_tried_where_products_in_bf16_are_slower(chosen, monkeypatch, tmp_path):
    monkeypatch.setattr(precision, "product_seconds", lambda _: {"float32": 1.0, "bf16": 50.0})
    monkeypatch.setattr(precision, "step_seconds", None)
    assert chosen() == "float32"
    assert precision.measured_precision(tmp_path)["seconds_per_product"] == {"float32": 1.0, "bf16": 50.0}


def test_a_training_keeps_what_it_began_with_and_another_one_measures_again(chosen, monkeypatch, spec):
    monkeypatch.setattr(precision, "step_seconds", lambda *_: {"float32": 2.0, "bf16": 1.0})
    assert chosen() == "bf16"
    monkeypatch.setattr(precision, "step_seconds", lambda *_: {"float32": 1.0, "bf16": 2.0})
    assert chosen() == "bf16"
    assert chosen(spec.model_copy(update={"seed": 2})) == "float32"


def test_the_measurement_takes_time_and_changes_nothing(tmp_path):
    loop = training(tmp_path)
    (batch,) = loop.batches.read([list(range(IMAGES))])
    before = {name: value.clone() for name, value in loop.model.state_dict().items()}
    random_state = torch.get_rng_state()
    seconds = precision.step_seconds(loop.model, loop.step.objective, batch, loop.group.device)
    assert set(seconds) == {"float32", "bf16"} and all(value > 0 for value in seconds.values())
    assert torch.equal(random_state, torch.get_rng_state())
    assert all(torch.equal(value, before[name]) for name, value in loop.model.state_dict().items())
    assert all(parameter.grad is None for parameter in loop.model.parameters())


@pytest.mark.slow
def test_a_run_says_what_was_measured_and_equals_a_run_with_that_precision(tmp_path):
    prepared = prepare(tmp_path)
    result = prepared.train("auto", stage_settings={**XE, "precision": "auto"})
    assert result.returncode == 0, result.stderr
    config = yaml.safe_load((tmp_path / "auto/run/config.yaml").read_text())
    kind = config["precision"]["chosen"]
    assert config["spec"]["stage_settings"]["precision"] == kind
    (measured,) = config["precision"].keys() & {"seconds_per_step", "seconds_per_product"}
    assert set(config["precision"][measured]) == {"float32", "bf16"}
    result = prepared.train("same", stage_settings={**XE, "precision": kind})
    assert result.returncode == 0, result.stderr
    weights = [(tmp_path / name / "run/model.safetensors").read_bytes() for name in ("auto", "same")]
    assert weights[0] == weights[1]
    accounts = [json.loads((tmp_path / name / "run/training.json").read_text()) for name in ("auto", "same")]
    assert accounts[0]["config_hash"] == accounts[1]["config_hash"]
