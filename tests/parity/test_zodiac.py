"""ZoDIAC attention against the golden vectors (official code and independent evaluations,
float64)."""

import pytest
import torch
from torch.nn.functional import gelu

from helpers.golden import load
from recap.nn.layers import ACTIVATIONS
from recap.nn.rows import Rows, shared_product
from recap.papers.zodiac.model import ZodiacMultiHead, intensity_pool, refined_map
from recap.papers.zodiac.settings import ZodiacModel

CASES = ["nomask", "srcmask", "srcmask_ones", "causal", "causal_shared"]
MODULES = ["self_nomask", "self_causal", "cross_src"]
TOLERANCE = 1e-10


def named(scope):
    """Return what the files call a scope."""
    return "code" if scope == "as_released" else scope


def one_caption(x):
    return x[:, None]  # [B, H, T, K] -> [B, 1, H, T, K]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("scope", ["as_released", "global", "image", "head", "prefix"])
@pytest.mark.parametrize("gate", ["sigmoid", "tanh"])
def test_attention(case, scope, gate):
    golden = load(f"zodiac_attention_{case}")
    if scope == "prefix" and not case.startswith("causal"):
        assert f"out_rap_prefix_{gate}" not in golden  # a prefix is defined for causal calls only
        return
    q1, q2, k, v = (one_caption(gelu(golden[name])) for name in ("q", "q2", "k", "v"))
    mask = golden["mask"][:, None].bool() if "mask" in golden else None
    attended = shared_product(refined_map(q1, k, mask=mask, activation=gelu), v)
    intensity_map = gelu(shared_product(q2, v.mT) / v.shape[-1] ** 0.5)
    torch.testing.assert_close(intensity_map[:, 0], golden["iv_map"], atol=TOLERANCE, rtol=0)
    pool, _ = intensity_pool(intensity_map, mask=mask, scope=scope)
    intensity = 1 + ACTIVATIONS[gate]()(pool)
    expected = golden[f"iv_rap_{named(scope)}_{gate}"]
    torch.testing.assert_close(
        intensity[..., None][:, 0].reshape(expected.shape), expected, atol=TOLERANCE, rtol=0
    )
    out = (attended * intensity[..., None])[:, 0]
    torch.testing.assert_close(
        out, golden[f"out_rap_{named(scope)}_{gate}"], atol=TOLERANCE, rtol=0
    )
    if scope == "as_released":
        torch.testing.assert_close(out, golden[f"out_code_{gate}"], atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("case", MODULES)
@pytest.mark.parametrize("scope", ["as_released", "global", "image", "head"])
@pytest.mark.parametrize("gate", ["sigmoid", "tanh"])
def test_multi_head(case, scope, gate):
    golden = load(f"zodiac_zmha_{case}")
    settings = ZodiacModel(kind="zodiac", d_model=6, heads=2, gate=gate, zodiac_dropout=0.0)
    module = ZodiacMultiHead(settings, scope).double()
    names = {"q1": "query", "q2": "intensity_query", "k": "key", "v": "value", "o": "output"}
    module.load_state_dict(
        {f"{ours}.weight": golden[f"W_{theirs}"] for theirs, ours in names.items()}
        | {f"{ours}.bias": golden[f"b_{theirs}"] for theirs, ours in names.items()}
    )
    mask = golden["mask"][:, None].bool() if "mask" in golden else None
    query, key, value = (Rows(golden[name][:, None]) for name in ("query", "key", "value"))
    out = module(
        query, (module.key_value(key)[0], module.key_value(value)[1]), attn_mask=mask
    ).values
    torch.testing.assert_close(
        out[:, 0], golden[f"out_rap_{named(scope)}_{gate}"], atol=TOLERANCE, rtol=0
    )
