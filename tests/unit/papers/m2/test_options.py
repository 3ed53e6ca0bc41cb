"""What M2's options change: positions, initial weights, padding of images; and its size."""

import math
from pathlib import Path

import numpy as np
import torch

from helpers.model_cases import build_model, random_images, random_tokens
from helpers.refusals import refused
from recap.core.errors import ConfigError
from recap.models.images import Images, InputSpec
from recap.settings import Model
from recap.settings.params import validate

GOLDEN = Path(__file__).resolve().parents[3] / "golden"
SMALL = {"kind": "m2", "d_model": 16, "heads": 2, "d_feed_forward": 24, "memory_slots": 3}


class Config:
    example_streams = {"main": 7}  # of `random_images`


def built(**changes):
    torch.manual_seed(0)
    return build_model(SMALL | changes, InputSpec({"main": 7}, 11)).double().eval()


def full_size(**changes):
    torch.manual_seed(0)
    return build_model({"kind": "m2", **changes}, InputSpec({"main": 2048}, 100))


def test_the_released_size():
    with torch.device("meta"):
        model = build_model({"kind": "m2"}, InputSpec({"main": 2048}, 10_201))
    assert round(sum(p.numel() for p in model.parameters()) / 1e6, 1) == 38.4


def test_sinusoids_are_the_released_table_from_its_second_row_on():
    released = np.load(GOLDEN / "positional_tables.npz")["out/m2_16"]
    assert not released[0].any()
    model = build_model(SMALL, InputSpec({"main": 7}, 11))
    torch.testing.assert_close(
        model.positions[:19], torch.from_numpy(released[1:]), atol=2e-6, rtol=0
    )
    assert "positions" not in model.state_dict()


def test_noise_is_kept_with_the_weights_and_learns_nothing():
    model = full_size(positions="noise", max_tokens=54)
    table = model.state_dict()["positions"]
    assert table.shape == (54, 512)
    bound = math.sqrt(6 / (55 + 512))  # Xavier's of the released table, which has a row more
    assert bound * 0.99 < table.abs().max() < bound
    assert abs(table.mean()) < 0.01
    assert "positions" not in dict(model.named_parameters())


def test_memory_slots_are_normal_as_intended_or_uniform_as_released():
    normal, uniform = (
        full_size(memory_init=kind).encoder[0].attention for kind in ("normal", "xavier")
    )
    assert normal.memory_key.shape == normal.memory_value.shape == (1, 40, 512)
    for memory, deviation in ((normal.memory_key, 1 / 64), (normal.memory_value, 1 / 40)):
        assert abs(memory.std().item() / deviation - 1) < 0.02
        assert memory.abs().max() > 3 * deviation
    for memory in (uniform.memory_key, uniform.memory_value):
        assert 0.0167 < memory.abs().max() < math.sqrt(6 / (40 * 512 + 512)) + 1e-8  # 0.0169


def log_probabilities(model, images):
    return model.log_probabilities(model.decode(random_tokens(len(images)), model.encode(images)))


def test_attended_padding_is_vectors_of_zeros():
    as_released, masked = built(max_vectors=10, padded_vectors="attended"), built(max_vectors=10)
    images = random_images(Config)  # nine vectors, three in the second
    values, mask = images.main.values, images.main.mask
    zeros = torch.zeros(3, 10, 7, dtype=torch.float64)
    zeros[:, :9] = values.masked_fill(~mask[..., None], 0)
    everything = Images.of(zeros, torch.ones(3, 10, dtype=torch.bool))
    expected = log_probabilities(masked, everything)
    torch.testing.assert_close(log_probabilities(as_released, images), expected, atol=1e-12, rtol=0)
    assert (log_probabilities(masked, images) - expected).abs().max() > 1e-6
    alone = images.select(torch.tensor([1]))
    trimmed = Images.of(alone.main.values[:, :3], alone.main.mask[:, :3])
    found = as_released.encode(trimmed)
    torch.testing.assert_close(
        found.levels, as_released.encode(images).levels[1:2], atol=1e-12, rtol=0
    )


def test_attended_padding_needs_a_number_of_vectors():
    with refused(ConfigError, "padded_vectors", "max_vectors"):
        validate(Model, SMALL | {"padded_vectors": "attended"}, "model")


def test_a_caption_longer_than_the_positions_is_refused():
    model = built(max_tokens=4)
    images = random_images(Config)
    with refused(ConfigError, "max_tokens"):
        log_probabilities(model, images)
    state = model.start(model.encode(images))
    with refused(ConfigError, "5 tokens", "4 positions", "max_tokens", "max_length"):
        for token in random_tokens(3, captions=1).unbind(-1):
            _, state = model.step(token, state)
