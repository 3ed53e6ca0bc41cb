"""A spec that wants several processes: `recap train` becomes torchrun, on the CPU over gloo."""

import json

import pytest
import torch
import yaml
from safetensors.torch import load_file

# All three: what one process draws for ten images,
# two draw for five each, from other random numbers.
STEADY = {"dropout": 0.0, "feature_dropout": 0.0, "zodiac_dropout": 0.0}


@pytest.mark.slow
def test_a_training_of_two_processes_gives_the_losses_and_weights_of_one(prepare, tiny_model):
    prepared = prepare()
    changes = {"model_settings": {**tiny_model, **STEADY}}
    for name, several in (("one", {}), ("two", {"processes": 2})):
        done = prepared.train(name, **changes, **several)
        assert done.returncode == 0, done.stderr[-3000:]
    one, two = (
        json.loads((prepared.folder / name / "run" / "training.json").read_text())
        for name in ("one", "two")
    )
    assert two["best_val_cider_d"] == pytest.approx(one["best_val_cider_d"], abs=1e-6)
    weights, others = (
        load_file(prepared.folder / name / "run" / "model.safetensors") for name in ("two", "one")
    )
    for name, other in others.items():
        torch.testing.assert_close(weights[name], other, atol=1e-5, rtol=0)
    config = yaml.safe_load((prepared.folder / "two" / "run" / "config.yaml").read_text())
    assert config["spec"]["processes"] == 2
