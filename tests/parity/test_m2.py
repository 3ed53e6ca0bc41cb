"""M2 against the golden vectors (official code, float64)."""

import math
from functools import partial

import pytest
import torch

from helpers.golden import close, with_parameters
from helpers.model_cases import build_model
from helpers.released import imported
from recap.decoding.beam import beam_search
from recap.decoding.step import DecodingBatch
from recap.models.images import Images, InputSpec
from recap.models.transformer import EncoderLayer
from recap.nn.attention import MultiHeadAttention
from recap.nn.layers import FeedForward, Residual
from recap.nn.rows import Rows
from recap.papers.m2 import released as m2
from recap.papers.m2.model import MemoryAttention, MeshedDecoderLayer, MeshedGate
from recap.runs.released import rename
from recap.settings import DecodingSettings

D, SIZES = 16, {"d_model": 16, "heads": 4, "d_key": 5, "d_value": 3}


def layer_parameters(official, stack):
    """Rename one layer's parameters as those of a stack's first layer."""
    named = {
        f"{stack}.layers.0.{name}": value
        for name, value in official.items()
        if "running_" not in name
    }
    renamed = rename(named, m2.LAYER_RULES)
    return {name.removeprefix(f"{stack}.0."): value for name, value in renamed.items()}


def around():
    residual = partial(Residual, d_model=D, norm="post", norm_kind="biased", dropout=0.1)
    return {
        "residual": residual,
        "feed_forward": FeedForward(d_model=D, d_hidden=32, activation="relu", dropout=0.1),
    }


def test_encoder_layer():
    golden, official = with_parameters("m2_encoder_layer")
    layer = EncoderLayer(attention=MemoryAttention(**SIZES, slots=6), **around()).double().eval()
    layer.load_state_dict(layer_parameters(official, "encoder"))
    x, mask = Rows(golden["in/x"][:, None]), ~golden["in/attention_mask"]
    attended = layer.attention(x, layer.attention.key_value(x), attn_mask=mask)
    close(attended.values[:, 0], golden["mid/attention_out"])
    close(layer(x, mask).values[:, 0], golden["out/y"])
    for everything in (torch.ones_like(mask), None):
        close(layer(x, everything).values[:, 0], golden["out/y_nomask"])


def test_meshed_decoder_layer():
    golden, official = with_parameters("m2_meshed_decoder_layer")
    attentions = {name: MultiHeadAttention(**SIZES) for name in ("attention", "cross")}
    layer = (
        MeshedDecoderLayer(**attentions, mesh=MeshedGate(d_model=D, levels=3), **around())
        .double()
        .eval()
    )
    layer.load_state_dict(layer_parameters(official, "decoder"))
    seen = {}
    layer.mesh.register_forward_hook(
        lambda _, inputs, out: seen.update(s=inputs[0], levels=inputs[1], meshed=out)
    )
    image = layer.cross.key_value(Rows(golden["in/encoder_levels"]))
    x = Rows(golden["in/x"][:, None])
    y, _ = layer(x, image, ~golden["in/self_mask"], ~golden["in/enc_mask"])
    real = golden["in/mask_pad"].bool()[
        ..., 0
    ]  # the official layer sets padded tokens to 0, which no other token reads
    assert not real.all()
    close(seen["s"][:, 0][real], golden["mid/self_att"][real])
    for level, found in enumerate(seen["levels"]):
        close(found[:, 0][real], golden["mid/enc_att"][:, level][real])
    close(seen["meshed"][:, 0][real], golden["mid/meshed"][real])
    close(y.values[:, 0][real], golden["out/y"][real])


@pytest.fixture
def whole():
    golden, official = with_parameters("m2_beam_search")
    config = {"kind": "m2", "d_model": 12, "heads": 3, "d_feed_forward": 16, "memory_slots": 3}
    config |= {"positions": "noise", "max_tokens": 12}
    model = build_model(config, InputSpec({"main": 10}, 14)).double().eval()
    model.load_state_dict(imported("m2", official))
    regions = golden["in/regions"]
    return (
        model,
        golden,
        model.encode(Images.of(regions, torch.ones(regions.shape[:2], dtype=torch.bool))),
    )


def test_names_are_complete(whole):
    model, golden, _ = whole  # loaded strictly
    assert len(model.state_dict()) == sum(name.startswith("param/") for name in golden) == 157


def test_teacher_forcing(whole):
    model, golden, memory = whole
    close(
        model.log_probabilities(model.decode(golden["in/tf_input"][:, None], memory))[:, 0],
        golden["out/tf_logprobs"],
    )


@pytest.mark.parametrize(("beam", "sequences"), [(5, "beam5_seqs"), (1, "greedy_seq")])
def test_beam_search(whole, beam, sequences):
    model, golden, memory = whole
    batch = DecodingBatch(2, 2, 3, 1, torch.device("cpu"))
    settings = DecodingSettings(beam=beam, max_length=8)

    def step(tokens, state):
        """After padding, which a beam may try, all are as likely: their decoder multiplies it by
        0."""
        found, state = model.step(tokens, state)
        return found.masked_fill((tokens == batch.pad)[..., None], -math.log(14)), state

    with torch.no_grad():
        found = beam_search(step, model.start(memory), batch, settings)
    expected = golden[f"out/{sequences}"].view(2, beam, 8)
    ended = (expected == 3).cumsum(-1) - (expected == 3).long() > 0
    # theirs are filled with the unknown word's id 0
    assert torch.equal(found.tokens, expected.masked_fill(ended, 1))
    if beam > 1:
        close(found.scores, golden["out/beam5_logprobs"].sum(-1))
