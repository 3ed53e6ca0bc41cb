"""Products over packed weights are the plain ones, whatever happens to the weights in between."""

import copy

import pytest
import torch
from torch.nn.functional import linear

from recap.layers.linear import Linear

pytestmark = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this torch has no oneDNN to pack for")


@pytest.fixture
def layer():
    torch.manual_seed(0)
    return Linear(40, 30)


def check(layer, x, packed=True):
    with torch.no_grad():
        torch.testing.assert_close(layer(x), linear(x, layer.weight, layer.bias), atol=1e-5, rtol=0)
    assert (layer._packed is not None) == packed


@pytest.mark.parametrize("shape", [(1,), (7,), (2, 3), (2, 3, 1), (0,)])
def test_equals_the_plain_product_for_all_shapes(layer, shape):
    check(layer, torch.randn(*shape, 40))
    check(layer, torch.randn(*shape, 80)[..., ::2])  # not contiguous


def test_changed_weights_are_packed_anew(layer):
    x = torch.randn(5, 40)
    check(layer, x)
    layer(x).sum().backward()
    torch.optim.SGD(layer.parameters(), lr=1.0).step()
    check(layer, x)
    layer.load_state_dict(Linear(40, 30).state_dict())
    check(layer, x)
    layer.weight = torch.nn.Parameter(torch.randn(30, 40))
    check(layer, x)
    layer.weight.data.add_(1.0)  # leaves no trace in the weight, so whoever does it says train() or eval()
    layer.eval()
    check(layer, x)


def test_one_vector_is_a_product_too(layer):
    check(layer, torch.randn(40), packed=False)


def test_gradients_other_types_and_autocast_take_the_general_product(layer):
    x = torch.randn(5, 40)
    assert layer(x).requires_grad and layer._packed is None
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        assert layer(x).dtype == torch.bfloat16 and layer._packed is None
    double = copy.deepcopy(layer).double()
    with torch.no_grad():
        expected = x.double() @ double.weight.T + double.bias
        torch.testing.assert_close(double(x.double()), expected, atol=1e-13, rtol=0)
    assert double._packed is None


def test_copies_and_saved_weights_leave_the_packed_ones_out(layer):
    x = torch.randn(5, 40)
    check(layer, x)
    twin = copy.deepcopy(layer)
    assert twin._packed is None and set(layer.state_dict()) == {"weight", "bias"}
    with torch.no_grad():
        twin.weight.zero_()
    check(twin, x)
    check(layer, x)
