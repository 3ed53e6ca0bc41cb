"""What only a GPU can show."""

import pytest
import torch

from helpers.training import CONFIG, training
from recap.settings import CrossEntropy

# Dropout draws other numbers on a GPU;
# a large epsilon keeps Adam from enlarging the rounding of gradients near 0.
STILL = {**CONFIG, "dropout": 0.0, "feature_dropout": 0.0}


def trained_on(device, folder, optimizer):
    stage = CrossEntropy(
        epochs=2, learning_rate=0.01, images_per_batch=5, epsilon=1e-2, optimizer=optimizer
    )
    loop = training(folder, stage=stage, config=STILL, device=device)
    before = {name: value.cpu().clone() for name, value in loop.model.state_dict().items()}
    loop.run()
    return before, {name: value.cpu() for name, value in loop.model.state_dict().items()}


@pytest.mark.gpu
@pytest.mark.parametrize("optimizer", ["adam", "adamw", "radam"])
def test_six_steps_on_a_gpu_give_the_weights_of_the_cpu(tmp_path, optimizer):
    before, expected = trained_on("cpu", tmp_path / "cpu", optimizer)
    _, found = trained_on("cuda", tmp_path / "cuda", optimizer)
    assert max((expected[name] - before[name]).abs().max() for name in before) > 1e-2
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, atol=1e-4, rtol=1e-4)
