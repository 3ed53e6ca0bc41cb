"""The moving average of the weights: its formula,
what is validated and kept, and that it is part of the state."""

import pytest
import torch
from safetensors.torch import load_file

from helpers.training import Killed, training
from recap.settings import CrossEntropy, SelfCritical
from recap.training.optim import WeightAverage

pytestmark = pytest.mark.seconds

XE = CrossEntropy(epochs=2, learning_rate=0.01, images_per_batch=5, weight_average=0.6)
SCST = SelfCritical(epochs=2, learning_rate=0.01, images_per_batch=5, weight_average=0.6)


def test_the_average_is_that_of_its_formula():
    weight = torch.nn.Parameter(torch.tensor([1.0, -2.0], dtype=torch.float64))
    average, expected = WeightAverage([weight], 0.4), weight.detach().clone()
    for step in range(1, 20):
        with torch.no_grad():
            weight.add_(torch.randn(2))
        average.update(step)
        decay = min(0.4, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * weight.detach()
    torch.testing.assert_close(average.averages[0], expected)


def test_weights_are_back_after_a_validation_even_if_it_fails():
    weight = torch.nn.Parameter(torch.tensor([1.0]))
    average = WeightAverage([weight], 0.5)
    with torch.no_grad():
        weight.fill_(3.0)
    with pytest.raises(Killed), average.in_place():
        assert weight.item() == 1
        raise Killed
    assert (weight.item(), average.averages[0].item()) == (3, 1)


@pytest.mark.parametrize("stage", [XE, SCST], ids=["xe", "scst"])
def test_the_average_is_validated_and_kept_and_the_training_goes_on_from_the_weights(
    tmp_path, stage
):
    plain = training(tmp_path / "plain", stage=stage.model_copy(update={"weight_average": None}))
    plain.run()
    loop, seen = training(tmp_path / "average", stage=stage), []

    def validate():
        seen.append({name: value.clone() for name, value in loop.model.state_dict().items()})
        return float(len(seen))

    loop.validate = validate
    loop.run()
    kept = load_file(loop.best_weights)
    for name, value in loop.model.state_dict().items():
        assert torch.equal(value, plain.model.state_dict()[name])
        assert torch.equal(kept[name], seen[-1][name])
    assert any(
        not torch.equal(kept[name], value) for name, value in plain.model.state_dict().items()
    )
