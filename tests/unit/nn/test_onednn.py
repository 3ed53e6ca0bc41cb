"""Products by oneDNN, where the table has them,
and their gradients are those of float64 up to rounding."""

import pytest
import torch
from torch.nn.functional import linear

from recap.nn import fast as fast_linear
from recap.nn.fast import Linear, deferred_weight_grad, product
from recap.nn.layers import LSTMCell

pytestmark = [
    pytest.mark.seconds,
    pytest.mark.skipif(not fast_linear.has_onednn(), reason="this torch has no oneDNN"),
]


def onednn_from(monkeypatch, size):
    """Let oneDNN be quicker on this processor from so many multiplications on."""
    monkeypatch.setattr(
        fast_linear, "ONEDNN", {torch.backends.cpu.get_cpu_capability(): {"product": size}}
    )


@pytest.fixture
def called(monkeypatch):
    """Send small products to oneDNN too, and return how the operands of each lay in memory."""
    multiply, lay = fast_linear.onednn_product, []

    def watched(x, weight, bias):
        lay.extend(
            m.is_contiguous() or m.mT.is_contiguous() for m in (x, weight) if not m.is_mkldnn
        )
        return multiply(x, weight, bias)

    onednn_from(monkeypatch, 0)
    monkeypatch.setattr(fast_linear, "onednn_product", watched)
    return lay


def rows(kind):
    x = torch.randn(6, 9, 2 * 70)
    return {
        "whole": x[..., :70].clone(),
        "columns": x[..., 70:],
        "every second": x[..., ::2],
        "same": x[:1, :1, :70],
    }[kind].expand(6, 9, 70)


def weights(kind):
    weight = torch.randn(40, 2 * 70)
    return {
        "whole": weight[:, :70].clone(),
        "columns": weight[:, 70:],
        "turned": weight[:, :70].T.clone().T,
    }[kind]


@pytest.mark.parametrize("of_x", ["whole", "columns", "every second", "same"])
@pytest.mark.parametrize("of_weight", ["whole", "columns", "turned"])
@pytest.mark.parametrize("biased", [True, False])
def test_product_and_gradients(of_x, of_weight, biased, called):
    torch.manual_seed(0)
    parts = [rows(of_x), weights(of_weight), *([torch.randn(40)] if biased else [])]
    outer, found = torch.randn(6, 9, 40), []
    for dtype, multiply in ((torch.float32, product), (torch.float64, linear)):
        own = [part.to(dtype).detach().requires_grad_() for part in parts]
        out = multiply(*own, None) if multiply is product and not biased else multiply(*own)
        found.append([out, *torch.autograd.grad(out, own, outer.to(dtype))])
    torch.testing.assert_close(found[0], [x.float() for x in found[1]], atol=2e-5, rtol=1e-5)
    assert called and all(called)


def test_gradients_are_made_only_where_asked(called):
    x, weight = torch.randn(5, 70), torch.randn(40, 70, requires_grad=True)
    product(x, weight, None).sum().backward()
    assert weight.grad is not None and x.grad is None
    assert len(called) == 2 * 2  # the product and one gradient


def test_a_loop_over_words_takes_no_part_of_a_matrix(called):
    torch.manual_seed(0)
    cell, layer, found = LSTMCell(70, 40), Linear(40, 30), []
    for dtype in (torch.float32, torch.float64):
        cell = cell.to(dtype)
        layer = layer.to(dtype)
        xs = torch.linspace(-1, 1, 5 * 6 * 30, dtype=dtype).view(5, 6, 30)
        h = c = xs.new_zeros(5, 40)
        with deferred_weight_grad():
            for x in xs.unbind(1):
                h, c = cell.step(cell.project_input(x, 0) + cell.project_input(h, 30), h, c)
                out = layer(h)
        found.append(
            torch.autograd.grad(out.square().sum(), [*cell.parameters(), *layer.parameters()])
        )
    torch.testing.assert_close(found[0], tuple(x.float() for x in found[1]), atol=2e-5, rtol=1e-5)
    assert called and all(called)


def test_same_bits_each_time(called):
    torch.manual_seed(0)
    x, weight = torch.randn(54, 70), torch.randn(40, 70)
    first = fast_linear.multiplied(x, weight)
    moved = torch.empty(54 * 70 + 1)[1:].view(54, 70).copy_(x)  # at another address
    assert torch.equal(first, fast_linear.multiplied(moved, weight.clone()))


def test_other_types_and_small_products_are_torchs(called, monkeypatch):
    x, weight = torch.randn(5, 70), torch.randn(40, 70)
    with torch.autocast("cpu", torch.bfloat16):
        assert product(x, weight, None).dtype == torch.bfloat16
    assert product(x.double(), weight.double(), None).dtype == torch.float64
    onednn_from(monkeypatch, 5 * 70 * 40 + 1)
    assert torch.equal(product(x, weight, None), linear(x, weight))
    assert not called


@pytest.mark.parametrize(
    ("processor", "expected"), [("AVX512", 5), ("AVX2", 1), ("DEFAULT", 0), ("unheard of", 0)]
)
def test_the_class_of_processor_and_the_size_decide(processor, expected, monkeypatch):
    calls, multiply = [], fast_linear.onednn_product
    monkeypatch.setattr(
        fast_linear, "onednn_product", lambda *parts: calls.append(1) or multiply(*parts)
    )
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: processor)
    large, small = Linear(512, 2048), Linear(16, 16)
    for layer in (large, small):
        # forward and two gradients
        layer(torch.randn(64, layer.in_features, requires_grad=True)).sum().backward()
        with fast_linear.fixed_weights():
            layer(torch.randn(4, layer.in_features))
            layer(torch.randn(40, layer.in_features))
    assert len(calls) == expected
