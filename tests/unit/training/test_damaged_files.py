"""Weights and states with flipped bits are refused, and weights of others load."""

import random

import torch
from safetensors.torch import save_file

from helpers.model_cases import build_model
from helpers.refusals import refused
from helpers.training import CONFIG, V, training
from recap.core.errors import TrainingError
from recap.models.images import InputSpec
from recap.runs.folder import load_weights, plain_weights, save_weights
from recap.training.loop import load_state


def flipped(path, seed):
    chance, content = random.Random(seed), bytearray(path.read_bytes())
    for _ in range(3):
        place = chance.randrange(len(content))
        content[place] ^= 1 << chance.randrange(8)
    path.write_bytes(content)


def equal(one, other):
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(equal, one, other))
    return one == other


def test_flipped_bits_in_weights_are_refused_or_harmless(tmp_path):
    path, model = tmp_path / "model.safetensors", build_model(CONFIG, InputSpec({"main": 5}, V))
    save_weights(path, plain_weights(model))
    whole, refused = path.read_bytes(), 0
    for seed in range(100):
        path.write_bytes(whole)
        flipped(path, seed)
        other = build_model(CONFIG, InputSpec({"main": 5}, V))
        try:
            load_weights(other, path)
        except TrainingError as error:
            assert "is damaged" in str(error)
            refused += 1
        else:
            assert all(
                torch.equal(a, b)
                for a, b in zip(other.parameters(), model.parameters(), strict=True)
            )
    assert refused > 90


def test_weights_that_others_wrote_have_no_digest_and_load(tmp_path):
    model = build_model(CONFIG, InputSpec({"main": 5}, V))
    save_file(model.state_dict(), tmp_path / "theirs.safetensors")
    load_weights(model, tmp_path / "theirs.safetensors")
    with refused(TrainingError, "theirs.safetensors"):
        load_weights(
            build_model(CONFIG, InputSpec({"main": 6}, V)), tmp_path / "theirs.safetensors"
        )


def test_flipped_bits_in_a_state_are_refused_or_harmless(tmp_path):
    loop = training(tmp_path)
    loop.run()
    path = tmp_path / "last.pt"
    whole, refused = path.read_bytes(), 0
    expected = load_state(tmp_path)
    for seed in range(100):
        path.write_bytes(whole)
        flipped(path, seed)
        try:
            found = load_state(tmp_path)
        except TrainingError as error:
            assert "last.pt: is damaged" in str(error)
            refused += 1
        else:
            assert found is not None and equal(found, expected)
    assert refused > 60  # a small file has many bytes of padding
