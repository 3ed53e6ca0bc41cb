"""Products that are pre-packed, deferred or masked cheaply give what plain ones give."""

import gc
import weakref
from contextlib import nullcontext

import pytest
import torch
from torch import nn

from recap.nn import fast as fast_module
from recap.nn.fast import DeferredWeightGrad, Linear, deferred_weight_grad, fixed_weights
from recap.nn.layers import LSTMCell
from recap.papers.xlan.model import bilinear_pool, plain_bilinear_pool

pytestmark = pytest.mark.seconds


@pytest.fixture(autouse=True)
def packs(monkeypatch):
    """Let searches pack weights whatever the processor."""
    monkeypatch.setattr(
        fast_module,
        "ONEDNN",
        {torch.backends.cpu.get_cpu_capability(): {"packed, few rows": 2**17}},
    )


def big():
    torch.manual_seed(0)
    return Linear(512, 256)


@fixed_weights()
def test_prepacked_weight_follows_the_weight():
    layer, x = big(), torch.randn(2, 3, 512)
    plain = nn.functional.linear
    for change in (
        lambda: None,
        lambda: None,
        lambda: layer.weight.mul_(2),
        lambda: None,
        lambda: layer.load_state_dict(big().state_dict()),
    ):
        change()
        torch.testing.assert_close(
            layer(x), plain(x, layer.weight, layer.bias), atol=1e-4, rtol=1e-5
        )
    layer.weight = nn.Parameter(layer.weight * 3)
    torch.testing.assert_close(layer(x), plain(x, layer.weight, layer.bias), atol=1e-4, rtol=1e-5)
    assert layer(x[:, :0]).shape == (2, 0, 256)


KINDS = {"adam": torch.optim.Adam, "radam": torch.optim.RAdam}


def decoded(layer, cell, x):
    with torch.no_grad():
        return layer(x), cell.step(cell.project_input(x, 0), x[:, :256], x[:, :256])[0]


def expected(layer, cell, x):
    return nn.functional.linear(x, layer.weight, layer.bias), nn.LSTMCell.forward(
        cell, x, (x[:, :256], x[:, :256])
    )[0]


@pytest.mark.parametrize("kind", KINDS)
def test_an_optimiser_of_ones_own_changes_what_is_decoded_without_train_or_eval(kind):
    layer, cell, x = big(), LSTMCell(512, 256), torch.randn(4, 512)
    # fused steps leave a weight's version as it is
    fast = {"foreach": True} if kind == "radam" else {"fused": True}
    steps = KINDS[kind]([*layer.parameters(), *cell.parameters()], lr=0.1, **fast)
    for _ in range(3):
        with fixed_weights():
            before = decoded(layer, cell, x)
        h, _ = cell.step(cell.project_input(x, 0), x[:, :256], x[:, :256])
        (layer(x).square().sum() + h.sum()).backward()
        steps.step()
        with fixed_weights():
            found = decoded(layer, cell, x), decoded(layer, cell, x)  # the second time packed
        for old, *now, right in zip(before, *found, expected(layer, cell, x), strict=True):
            assert not torch.allclose(old, now[0])
            for each in now:
                torch.testing.assert_close(each, right, atol=1e-2, rtol=1e-4)


@torch.no_grad()
def test_no_prepacked_weight_outlives_its_scope():
    layer, cell, x = big(), LSTMCell(512, 256), torch.randn(4, 512)
    with fixed_weights():
        decoded(layer, cell, x), decoded(layer, cell, x)
    for parameter in (*layer.parameters(), *cell.parameters()):
        parameter.data.add_(1.0)  # a write that leaves no trace
    for now, right in zip(decoded(layer, cell, x), expected(layer, cell, x), strict=True):
        torch.testing.assert_close(now, right, atol=1e-3, rtol=1e-5)
    with fixed_weights():
        torch.testing.assert_close(layer(x), expected(layer, cell, x)[0], atol=1e-3, rtol=1e-5)


def test_a_weight_is_prepacked_once_at_its_second_use(monkeypatch):
    packed = []
    reorder = torch.ops.mkldnn._reorder_linear_weight
    monkeypatch.setattr(
        torch.ops.mkldnn,
        "_reorder_linear_weight",
        lambda weight, rows: packed.append(1) or reorder(weight, rows),
    )
    layer, x = big(), torch.randn(4, 512)
    with fixed_weights():
        found = [layer(x)]
        assert not packed  # an encoder's are used once per batch
        with fixed_weights():
            found.append(layer(x))
        found.append(layer(x))
    assert len(packed) == 1
    for each in found:
        torch.testing.assert_close(each, layer(x), atol=1e-4, rtol=1e-5)
    layer(x)
    assert len(packed) == 1


def unrolled(cell, layer, xs, deferred):
    h = c = xs.new_zeros(len(xs), 4)
    outs = []
    with deferred_weight_grad() if deferred else nullcontext():
        for x in xs.unbind(1):
            h, c = cell.step(cell.project_input(x, 0) + cell.project_input(h, 3), h, c)
            outs.append(layer(h))
    return torch.stack(outs)


def test_deferred_gradient_is_the_sum_over_the_loop():
    torch.manual_seed(0)
    cell, layer = LSTMCell(7, 4).double(), Linear(4, 2).double()
    xs = torch.randn(5, 6, 3, dtype=torch.float64, requires_grad=True)
    wanted = [xs, *cell.parameters(), *layer.parameters()]
    found = []
    for deferred in (False, True):
        loss = unrolled(cell, layer, xs, deferred).square().sum()
        first = torch.autograd.grad(loss, wanted, retain_graph=True)
        # a pass that asks for other gradients leaves nothing behind
        torch.autograd.grad(loss, xs, retain_graph=True)
        found += [first, torch.autograd.grad(loss, wanted)]
    for others in found[1:]:
        for expected, gradient in zip(found[0], others, strict=True):
            torch.testing.assert_close(gradient, expected, atol=1e-12, rtol=0)


def test_a_loop_leaves_nothing_behind_for_the_collector(monkeypatch):
    cell, layer, xs = LSTMCell(7, 4), Linear(4, 2), torch.randn(5, 6, 3)
    kept, init = [], DeferredWeightGrad.__init__
    monkeypatch.setattr(
        DeferredWeightGrad,
        "__init__",
        lambda self, w: kept.append(weakref.ref(self)) or init(self, w),
    )
    gc.disable()
    try:
        with deferred_weight_grad():
            h = c = xs.new_zeros(5, 4)
            for x in xs.unbind(1):
                h, c = cell.step(cell.project_input(x, 0) + cell.project_input(h, 3), h, c)
                out = layer(h)
        out.sum().backward()
        del h, c, x, out
        assert len(kept) == 3 and all(deferred() is None for deferred in kept)
    finally:
        gc.enable()


def test_deferred_gradient_under_bf16():
    torch.manual_seed(0)
    cell, layer, xs = LSTMCell(7, 4), Linear(4, 2), torch.randn(5, 6, 3)
    found = []
    for deferred in (False, True):
        with torch.autocast("cpu", torch.bfloat16):
            loss = unrolled(cell, layer, xs, deferred).float().square().sum()
        found.append(torch.autograd.grad(loss, cell.weight_hh)[0])
    torch.testing.assert_close(found[1], found[0], atol=0.02, rtol=0.1)


@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_gradient_of_pooling(rows, dropout, monkeypatch):
    monkeypatch.setattr("recap.papers.xlan.model.CHUNK", 100)  # several chunks
    torch.manual_seed(0)
    shapes = ((3, 2, 4, 3), (3, 2, 5, 3), (2, 3), (2,), (2,))
    parts = [torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    mean_weights = torch.rand(3, 1, rows, 5, dtype=torch.float64)

    def pooled(*parts):
        torch.manual_seed(1)  # the same mask each time
        return bilinear_pool(*parts, mean_weights, dropout=dropout)

    assert torch.autograd.gradcheck(pooled, parts)


def test_pooling_is_the_equation():
    torch.manual_seed(0)
    q, k, weight = (
        torch.randn(*shape, dtype=torch.float64) for shape in ((3, 2, 4, 3), (3, 2, 5, 3), (2, 3))
    )
    bias, spatial = torch.randn(2, 2, dtype=torch.float64)
    mean_weights = torch.rand(3, 1, 4, 5, dtype=torch.float64)
    joint = torch.relu((q[..., None, :] * k[:, :, None]) @ weight.mT + bias)
    for pool in (bilinear_pool, plain_bilinear_pool):
        scores, means = pool(q, k, weight, bias, spatial, mean_weights)
        torch.testing.assert_close(scores, joint @ spatial)
        torch.testing.assert_close(means, (joint * mean_weights[..., None]).sum(3))
