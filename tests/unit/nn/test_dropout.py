"""Dropout of all models: torch's distribution, scale and gradient, from 16 random bits an entry."""

import pytest
import torch
from torch import nn

from helpers.model_cases import built, cases
from recap.nn import layers
from recap.nn.layers import Dropout, dropout

pytestmark = pytest.mark.seconds

N = 10**7


@pytest.fixture(scope="module")
def dropped():
    """Return which of N entries are dropped at rate 0.3, in rows of 1,000."""
    torch.manual_seed(0)
    return dropout(torch.ones(N // 1000, 1000), 0.3, True) == 0


def chi_square(counts, probabilities):
    expected = torch.tensor(probabilities, dtype=torch.float64) * counts.sum()
    return float(((counts - expected) ** 2 / expected).sum())


def test_the_rate_is_right_in_every_sixteenth_of_the_entries(dropped):
    counts = dropped.flatten().view(16, -1).double().sum(1)
    size, rate = N / 16, 0.3
    # 0.999 of 16 degrees
    assert float(((counts - size * rate) ** 2 / (size * rate * (1 - rate))).sum()) < 39.3


@pytest.mark.parametrize("apart", [1, 2, 3, 4, 8, 1000])
def test_neighbors_are_independent(dropped, apart):
    flat = dropped.flatten().long()
    pairs = torch.bincount(2 * flat[:-apart] + flat[apart:], minlength=4).double()
    # Pairs overlap, so that the share of dropped entries counts twice:
    # 0.999 of two degrees, doubled.
    assert chi_square(pairs, [0.49, 0.21, 0.21, 0.09]) < 2 * 13.8


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_kept_entries_and_their_gradients_are_scaled(p, dtype):
    x = torch.randn(300, 301, dtype=dtype).requires_grad_()  # no whole number of draws
    out = dropout(x, p, True)
    (gradient,) = torch.autograd.grad(out.sum(), x)
    assert out.dtype == gradient.dtype == dtype
    assert float((out == 0).double().mean()) == pytest.approx(p, abs=0.01)
    factor = torch.full_like(x, 1 / (1 - p))
    tolerance = {"rtol": 2 * torch.finfo(dtype).eps + 2e-4, "atol": 0}  # the rate is rounded, too
    torch.testing.assert_close(gradient, factor * (out != 0), **tolerance)
    torch.testing.assert_close(out, x * gradient, rtol=2 * torch.finfo(dtype).eps, atol=0)


@pytest.mark.parametrize("p", [0.0, 1e-7, 1 - 1e-7])
def test_extreme_rates_give_numbers(p):
    out = dropout(torch.ones(1000), p, True)
    assert torch.isfinite(out).all() and (p > 0.5 or torch.equal(out, torch.ones(1000)))


def test_nothing_is_drawn_or_dropped_where_nothing_is_trained():
    x = torch.randn(5, 3)
    before = torch.get_rng_state()
    assert torch.equal(Dropout(0.5).eval()(x), x)
    assert torch.equal(Dropout(0.0)(x), x) and dropout(x[:0], 0.5, True).shape == (0, 3)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("name, config", cases())
def test_every_dropout_of_a_model_is_this_one(name, config):
    kinds = {type(module) for module in built(config).modules()}
    assert not any(
        issubclass(kind, nn.modules.dropout._DropoutNd) and kind is not Dropout for kind in kinds
    )


@pytest.mark.slow
def test_a_compiled_layer_takes_torchs(monkeypatch):
    monkeypatch.setattr(layers, "dropout_mask", None)
    torch._dynamo.reset()
    out = torch.compile(Dropout(0.5), backend="aot_eager", fullgraph=True)(torch.ones(1000))
    assert 0.3 < float((out == 0).double().mean()) < 0.7
