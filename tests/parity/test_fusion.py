"""Attention, guidance, fusion and gate
of the Fusion Transformer against two evaluations of its equations (float64)."""

from functools import partial

import pytest
import torch

from helpers.golden import close, load
from recap.nn.layers import Residual
from recap.nn.rows import Rows
from recap.papers.fusion.model import Bare, FusionAttention, FusionGate, PositionedAttention

PROJECTIONS = {"q": "query", "k": "key", "v": "value", "o": "output"}


def projections(golden, prefix):
    return {
        f"{ours}.{part}": golden[f"{prefix}{letter}{theirs}"]
        for theirs, ours in PROJECTIONS.items()
        for letter, part in (("W", "weight"), ("b", "bias"))
    }


def norm(golden, prefix):
    return {"norm.weight": golden[f"{prefix}ln_w"], "norm.bias": golden[f"{prefix}ln_b"]}


@pytest.mark.parametrize(
    ("site", "key"),
    [
        ("before", "pre_projection"),
        ("after", "post_projection"),
        ("before", "no_position"),
        ("before", "plain"),
    ],
)
def test_modified_self_attention(site, key):
    golden = load("ft_naive_attention")
    module = PositionedAttention(d_model=16, heads=int(golden["heads"]), site=site).double()
    module.load_state_dict(projections(golden, "param/"))
    x = Rows(golden["X"][None, None])
    positions = golden["APE"][None, None] if "projection" in key else None
    bias = None if key == "plain" else golden["log_gate"][None, None]
    out = module(x, module.key_value(x, positions), attn_bias=bias, positions=positions).values[
        0, 0
    ]
    close(out, golden[f"out_{key}"])
    if key == "pre_projection":
        residual = Residual(d_model=16, norm="post", norm_kind="biased", dropout=0.0).double()
        residual.load_state_dict(norm(golden, "param/"))
        close(residual(golden["X"], lambda _: out), golden["out_pre_projection_add_ln"])


@pytest.mark.parametrize("site", ["before", "after"])
def test_scores_of_modified_self_attention(site):
    golden = load("ft_naive_attention")
    module = PositionedAttention(d_model=16, heads=2, site=site).double()
    module.load_state_dict(projections(golden, "param/"))
    x, positions = Rows(golden["X"][None, None]), golden["APE"][None, None]
    queries = module._positioned(x, module.query, positions).split_heads(2)
    keys, _ = module.key_value(x, positions)
    scores = (queries @ keys.mT)[0, 0] / 8**0.5 + golden["log_gate"]
    close(scores, golden[f"E_{'pre' if site == 'before' else 'post'}_projection"])


@pytest.mark.parametrize("form", ["plain", "add_ln"])
@pytest.mark.parametrize("bias", [True, False])
def test_fusion_attention_and_gate(form, bias):
    golden = load("ft_naive_fusion")
    names = {"lgb_r": "guidance_second", "lgb_g": "guidance_grid", "fa_r": "second", "fa_g": "grid"}
    residual = (
        partial(Residual, d_model=16, norm="post", norm_kind="biased", dropout=0.0)
        if form == "add_ln"
        else Bare
    )
    module = FusionAttention(
        d_model=16, heads=int(golden["heads"]), gate_bias=bias, residual=residual
    ).double()
    parameters = {"gate.gate.weight": golden["W_f"]} | (
        {"gate.gate.bias": golden["b_f"]} if bias else {}
    )
    for theirs, ours in names.items():
        own = projections(golden, f"param/{theirs}/")
        parameters |= {f"{ours}.{name}": value for name, value in own.items()}
        if form == "add_ln":
            around = norm(golden, f"param/{theirs}/")
            parameters |= {f"around.{ours}.{name}": value for name, value in around.items()}
    module.load_state_dict(parameters)
    seen = {}
    FusionGate.forward, original = recording(seen), FusionGate.forward
    try:
        image = module.key_value(golden["R"][None], golden["G"][None], (None, None))
        mask = ~golden["R_key_is_pad"][None, None, None]
        out = module(Rows(golden["a_t"][None, None]), image, (mask, None)).values[0, 0]
    finally:
        FusionGate.forward = original
    for name in ("l_r", "l_g", "R_t", "G_t"):
        close(seen[name][0, 0], golden[f"{form}/{name}"])
    suffix = "bias" if bias else "nobias"
    gate = torch.sigmoid(
        module.gate.gate(torch.cat([golden["a_t"], seen["l_r"][0, 0], seen["l_g"][0, 0]], -1))
    )
    close(gate, golden[f"{form}/f_{suffix}"])
    close(out, golden[f"{form}/F_{suffix}"])


def recording(seen):
    """Return a gate's forward that keeps what it is given."""
    original = FusionGate.forward

    def forward(self, words, guidance, fused):
        seen.update(zip(("l_r", "l_g", "R_t", "G_t"), (*guidance, *fused), strict=True))
        return original(self, words, guidance, fused)

    return forward
