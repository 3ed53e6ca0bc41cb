"""RECAP_FAST=0 takes plain torch, which gives the same."""

import runpy

import pytest
import torch
from torch import nn

from helpers.model_cases import B, C, T, built, cases, random_images, random_tokens
from recap.nn import fast
from recap.nn.fast import Linear, deferred_weight_grad, fixed_weights
from recap.nn.rows import PackedIndex
from recap.papers.xlan import model as xlan
from recap.papers.xlan.model import bilinear_pool

EVERYWHERE = {torch.backends.cpu.get_cpu_capability(): {"product": 0, "packed, few rows": 0}}


@pytest.fixture
def plain(monkeypatch):
    monkeypatch.setattr(fast, "_enabled", False)


@pytest.mark.parametrize(("value", "expected"), [("0", False), ("1", True), (None, True)])
def test_the_environment_switches(value, expected, monkeypatch):
    if value is None:
        monkeypatch.delenv("RECAP_FAST", raising=False)
    else:
        monkeypatch.setenv("RECAP_FAST", value)
    assert runpy.run_path(fast.__file__)["fast"]() is expected


def test_without_fast_layers_nothing_but_torch_runs(plain, monkeypatch):
    def never(*_arguments, **_named):
        raise AssertionError("a fast path was taken")

    monkeypatch.setattr("recap.nn.fast.onednn_product", never)
    monkeypatch.setattr(fast, "DeferredWeightGrad", never)
    monkeypatch.setattr(xlan, "_Pool", never)
    monkeypatch.setattr("recap.nn.rows.PackedIndex.unpack", never)
    monkeypatch.setattr(fast, "ONEDNN", EVERYWHERE)
    layer = Linear(512, 256)
    with fixed_weights():
        layer(torch.randn(4, 512))
    with deferred_weight_grad():
        layer(torch.randn(4, 512))
    q, k = torch.randn(1, 1, 2, 3), torch.randn(1, 1, 4, 3)
    bilinear_pool(
        q,
        k,
        torch.randn(2, 3),
        torch.randn(2),
        torch.randn(2),
        torch.full((1, 1, 1, 4), 0.25),
        dropout=0.5,
    )
    tokens, index = random_tokens(), PackedIndex(torch.rand(B, C, T) < 0.5)
    for name, config in cases():
        model = built(config).train()
        assert model.decode_words(tokens, index, model.encode(random_images(config))).dim() == 2, (
            name
        )


@pytest.mark.parametrize("missing", ["_reorder_linear_weight", "_linear_pointwise"])
def test_a_torch_without_the_private_operators_multiplies_plainly(missing, monkeypatch):
    names = {"_reorder_linear_weight", "_linear_pointwise"} - {missing}
    monkeypatch.setattr(torch.ops, "mkldnn", type("Operators", (), dict.fromkeys(names)))
    monkeypatch.setattr(fast, "ONEDNN", EVERYWHERE)
    layer, x = Linear(512, 256), torch.randn(4, 512)
    with fixed_weights():
        assert torch.equal(layer(x), nn.functional.linear(x, layer.weight, layer.bias))


def test_the_mask_of_the_joint_layer_is_the_same_without_fast_paths(monkeypatch):
    monkeypatch.setattr(xlan, "CHUNK", 100)  # several chunks
    torch.manual_seed(0)
    shapes = ((3, 2, 4, 3), (3, 2, 5, 3), (3, 3), (3,), (3,))
    parts = [torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    mean_weights, found = torch.rand(3, 1, 4, 5, dtype=torch.float64), []
    for enabled in (True, False):
        monkeypatch.setattr(fast, "_enabled", enabled)
        torch.manual_seed(1)
        scores, means = bilinear_pool(*parts, mean_weights, dropout=0.3)
        found.append(
            [scores, means, *torch.autograd.grad(scores.square().sum() + means.sum(), parts)]
        )
    torch.testing.assert_close(*found, rtol=1e-12, atol=1e-12)
