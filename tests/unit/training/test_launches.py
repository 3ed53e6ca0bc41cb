"""Kernels and waits of a step of cross-entropy without its optimizer, on a GPU.

Docs/development/gpu.md has them.
"""

import pytest
import torch

from helpers.counting_device import DEVICE, CountingDevice
from helpers.model_cases import build_model
from recap.models.images import Images, InputSpec
from recap.nn import attention
from recap.nn.rows import PackedIndex, causal_mask
from recap.settings import CrossEntropy
from recap.training.batches import Batch
from recap.training.objectives import CrossEntropyObjective

pytestmark = pytest.mark.seconds
IMAGES, CAPTIONS, VECTORS, FEATURES, VOCABULARY = 10, 5, 50, 2048, 9488
# Of the papers' sizes: launches at 15 tokens, and for each further token.
MOST = {"transformer": (960, 0), "m2": (720, 0), "x_transformer": (2680, 0), "xlan": (3075, 164)}
CAUSAL = {"transformer": 6, "m2": 3}  # fused attentions of tokens over tokens, which need no mask


@pytest.fixture
def step(monkeypatch):
    """Return a function that counts forward and backward pass of a model of its paper's size."""
    # it does not know the device
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda kind: False)
    address = torch.Tensor.data_ptr
    monkeypatch.setattr(
        torch.Tensor, "data_ptr", lambda x: x.untyped_storage()._cdata if x.is_meta else address(x)
    )

    def counted(kind, tokens):
        with DEVICE:
            model = build_model({"kind": kind}, InputSpec({"main": FEATURES}, VOCABULARY))
            images = Images.of(
                torch.empty(IMAGES, VECTORS, FEATURES),
                torch.empty(IMAGES, VECTORS, dtype=torch.bool),
            )
            captions = torch.empty(IMAGES, CAPTIONS, tokens + 1, dtype=torch.long)
        causal_mask(tokens, DEVICE)  # an earlier batch made it
        # found on the CPU
        index = PackedIndex(torch.ones(IMAGES, CAPTIONS, tokens, dtype=torch.bool)).each(
            lambda x: x.to(DEVICE)
        )
        objective = CrossEntropyObjective(model, CrossEntropy(epochs=1, learning_rate=0.1))
        with CountingDevice(real=IMAGES * CAPTIONS * tokens) as device:
            monkeypatch.setattr(attention, "scaled_dot_product_attention", device.attention)
            loss = objective(Batch([*range(IMAGES)], images, captions, index)).loss
            device.note("backward")
            loss.backward()
        return device

    return counted


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[] if kind in CAUSAL else pytest.mark.slow) for kind in MOST]
)
def test_launches_and_waits_of_a_step(kind, step):
    most, of_a_token = MOST[kind]
    short, long = step(kind, 15), step(kind, 16)
    assert 0.95 * most < len(short.launches) <= most  # a lower count is to be written into the page
    assert len(long.launches) - len(short.launches) == of_a_token
    assert short.launches.count("attention") == CAUSAL.get(kind, 0)
    assert not short.waits
