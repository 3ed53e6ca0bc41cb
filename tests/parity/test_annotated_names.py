"""The state dicts of the released ZoDIAC and Transformer,
under their own names, give their numbers in our models."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from helpers.model_cases import V, build_model, log_probabilities, random_images, random_tokens
from helpers.refusals import refused
from helpers.released import imported
from recap.core.errors import ConfigError
from recap.models.images import InputSpec
from recap.nn.layers import sinusoid_table
from recap.nn.rows import Rows
from recap.papers.aoanet import released as aoanet
from recap.papers.m2 import released as m2
from recap.papers.transformer import model as transformer
from recap.papers.up_down import model as up_down
from recap.papers.visualgpt import released as visualgpt
from recap.papers.xlan.released import X_TRANSFORMER, XLAN
from recap.papers.zodiac import model as zodiac
from recap.settings.models import MODELS

GOLDEN = Path(__file__).parents[1] / "golden"
D, HEADS, HIDDEN, FEATURES = 6, 2, 12, 7
SUBLAYERS = {"encoder": ("self_attn",), "decoder": ("self_attn", "src_attn")}


def official_state(linears):
    """Return a whole state dict of one layer a side, with so many projections an attention."""
    torch.manual_seed(3)
    shapes = {"att_embed.0": (D, FEATURES), "model.generator.proj": (V, D)}
    norms = []
    for side, attentions in SUBLAYERS.items():
        layer = f"model.{side}.layers.0"
        shapes |= {
            f"{layer}.{name}.linears.{index}": (D, D)
            for name in attentions
            for index in range(linears)
        }
        shapes |= {
            f"{layer}.feed_forward.w_1": (HIDDEN, D),
            f"{layer}.feed_forward.w_2": (D, HIDDEN),
        }
        norms += [
            f"model.{side}.norm",
            *(f"{layer}.sublayer.{index}.norm" for index in range(len(attentions) + 1)),
        ]
    state = {f"{name}.weight": torch.randn(shape) for name, shape in shapes.items()}
    state |= {f"{name}.bias": torch.randn(shape[0]) for name, shape in shapes.items()}
    state |= {f"{name}.{key}": torch.randn(D) for name in norms for key in ("a_2", "b_2")}
    state["model.tgt_embed.0.lut.weight"] = torch.randn(V, D)
    state["model.tgt_embed.1.pe"] = sinusoid_table(5000, D)[None]
    return {name: value.double() for name, value in state.items()}


def built(kind, state, **changes):
    sizes = {
        "d_model": D,
        "heads": HEADS,
        "d_feed_forward": HIDDEN,
        "encoder_layers": 1,
        "decoder_layers": 1,
    }
    model = build_model(
        {"kind": kind, **sizes, "layer_norm": "unbiased", **changes},
        InputSpec({"main": FEATURES}, V),
    )
    model.double().eval().load_state_dict(imported(kind, state))
    return model


class Released:
    """The Transformer's forward pass on its released names: pre-norm, every word a row of its
    own."""

    def __init__(self, state):
        self.state = state

    def linear(self, name, x):
        return x @ self.state[f"{name}.weight"].T + self.state[f"{name}.bias"]

    def norm(self, name, x):
        centered = x - x.mean(-1, keepdim=True)
        return (
            self.state[f"{name}.a_2"] * centered / (x.std(-1, keepdim=True) + 1e-6)
            + self.state[f"{name}.b_2"]
        )

    def attention(self, name, query, source, mask):
        def heads(index, x):
            return (
                self.linear(f"{name}.linears.{index}", x).unflatten(-1, (HEADS, -1)).transpose(1, 2)
            )

        q, k, v = heads(0, query), heads(1, source), heads(2, source)
        scores = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(~mask, -1e9)
        return self.linear(f"{name}.linears.3", (scores.softmax(-1) @ v).transpose(1, 2).flatten(2))

    def stack(self, side, x, masks, memory=None):
        layer = f"model.{side}.layers.0"
        for index, name in enumerate(SUBLAYERS[side]):
            y = self.norm(f"{layer}.sublayer.{index}.norm", x)
            x = x + self.attention(
                f"{layer}.{name}", y, y if name == "self_attn" else memory, masks[index]
            )
        y = self.norm(f"{layer}.sublayer.{len(SUBLAYERS[side])}.norm", x)
        hidden = self.linear(f"{layer}.feed_forward.w_1", y).relu()
        return self.norm(f"model.{side}.norm", x + self.linear(f"{layer}.feed_forward.w_2", hidden))

    def log_probabilities(self, images, tokens):
        each = [
            x.repeat_interleave(tokens.shape[1], 0) for x in (images.main.values, images.main.mask)
        ]
        seen, words = each[1][:, None, None], tokens.flatten(0, 1)
        memory = self.stack("encoder", self.linear("att_embed.0", each[0]).relu(), [seen])
        x = self.state["model.tgt_embed.0.lut.weight"][words] * math.sqrt(D)
        x = x + self.state["model.tgt_embed.1.pe"][0, : words.shape[1]]
        causal = torch.ones(words.shape[1], words.shape[1], dtype=torch.bool).tril()
        scores = self.linear(
            "model.generator.proj", self.stack("decoder", x, [causal, seen], memory)
        )
        return scores.log_softmax(-1).unflatten(0, tokens.shape[:2])


@torch.no_grad()
def test_a_released_transformer_gives_its_numbers():
    state = official_state(4)
    model = built("transformer", state)
    images, tokens = random_images(MODELS.classes()["transformer"].example()), random_tokens()
    expected = Released(state).log_probabilities(images, tokens)
    torch.testing.assert_close(
        log_probabilities(model, images, tokens), expected, atol=1e-7, rtol=0
    )


@torch.no_grad()
@pytest.mark.parametrize("case", ["self_nomask", "self_causal", "cross_src"])
@pytest.mark.parametrize("gate", ["sigmoid", "tanh"])
def test_a_released_zodiac_attention_gives_its_numbers(case, gate):
    golden = {
        key: torch.from_numpy(value)
        for key, value in np.load(GOLDEN / f"zodiac_zmha_{case}.npz").items()
    }
    cross = case.startswith("cross")
    state = official_state(5)
    prefix = f"model.decoder.layers.0.{'src_attn' if cross else 'self_attn'}.linears"
    for index, name in enumerate(("q1", "q2", "k", "v", "o")):
        state |= {
            f"{prefix}.{index}.weight": golden[f"W_{name}"],
            f"{prefix}.{index}.bias": golden[f"b_{name}"],
        }
    model = built("zodiac", state, gate=gate, rap_scope="as_released")
    attention = model.decoder[0].cross if cross else model.decoder[0].attention
    mask = golden["mask"][:, None].bool() if "mask" in golden else None
    query, key, value = (Rows(golden[name][:, None]) for name in ("query", "key", "value"))
    key_value = attention.key_value(key)[0], attention.key_value(value)[1]
    found = attention(query, key_value, attn_mask=mask).values[:, 0]
    torch.testing.assert_close(found, golden[f"out_code_{gate}"], atol=1e-10, rtol=0)


RENAMES = [
    transformer.rename_official,
    zodiac.rename_official,
    aoanet.rename_official,
    m2.rename_official,
]
RENAMES += [visualgpt.rename_official, up_down.rename_official, XLAN.rename, X_TRANSFORMER.rename]


@pytest.mark.parametrize("rename", RENAMES)
def test_names_of_others_are_refused(rename):
    with refused(ConfigError, "core.unknown.weight"):
        rename({"core.unknown.weight": torch.zeros(1)})


def test_projections_of_another_release_are_refused():
    # which the import makes a sentence
    with pytest.raises(RuntimeError, match=r"encoder\.0\.attention\.linears\.4"):
        built("transformer", official_state(5))
