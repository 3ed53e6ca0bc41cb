"""X-Linear blocks, X-LAN, X-Transformer
and Up-Down against the golden vectors (official code, float64)."""

from dataclasses import replace

import torch
from torch import nn

from helpers.golden import close, with_parameters
from helpers.model_cases import build_model
from helpers.refusals import refused
from helpers.released import imported
from recap.core.errors import ConfigError
from recap.models.images import Images, InputSpec
from recap.models.state import GlobalMemory
from recap.nn.rows import Rows
from recap.papers.xlan.model import XDecoderLayer, XEncoderLayer, XLinear
from recap.papers.xlan.released import X_LINEAR, X_TRANSFORMER, X_TRANSFORMER_RULES
from recap.papers.xlan.settings import XTransformerModel
from recap.runs.released import rename

D, HEADS, JOINT, VOCABULARY = 16, 4, 3, 12


SIZES = XTransformerModel(
    kind="x_transformer", d_model=D, heads=HEADS, d_joint=JOINT, d_feed_forward=64
)


def block():
    return XLinear(SIZES).double().eval()


def test_block():
    golden, official = with_parameters("x_linear_block")
    module = block()
    module.load_state_dict(rename(official, X_LINEAR))
    query = Rows(golden["in/query"][:, None, None])
    keys, values = module.key_value(Rows(golden["in/keys"][:, None]))
    close(keys[:, 0], golden["mid/k_proj"])
    close(values[:, 0], golden["mid/v2_proj"])
    seen = []
    handle = module.weights.register_forward_hook(lambda _, inputs, out: seen.append(out))
    mask = golden["in/mask"].bool()[:, None, None]
    close(module(query, (keys, values), attn_mask=mask).values[:, 0, 0], golden["out/attended"])
    handle.remove()
    close(seen[0][:, 0, :, 0], golden["mid/beta_spatial"])
    for everything in (torch.ones_like(mask), None):
        close(
            module(query, (keys, values), attn_mask=everything).values[:, 0, 0],
            golden["out/attended_nomask"],
        )


def test_block_with_a_query_a_word():
    golden, official = with_parameters("x_linear_block_seq")
    module = block()
    module.load_state_dict(rename(official, X_LINEAR))
    query = Rows(golden["in/query"][:, None])
    for name in ("self", "cross"):
        key_value = module.key_value(Rows(golden[f"in/{name}_kv"][:, None]))
        mask = golden[f"in/{name}_mask"].bool()[:, None]
        close(module(query, key_value, attn_mask=mask).values[:, 0], golden[f"out/{name}_attended"])


def xlan_model(official):
    """An X-LAN in the sizes of the vectors.

    Parameters that the file lacks keep their random start.
    """
    config = {"kind": "xlan", "d_model": D, "heads": HEADS, "d_joint": JOINT}
    model = build_model(config, InputSpec({"main": 20}, VOCABULARY)).double().eval()
    missing, unexpected = model.load_state_dict(imported("xlan", official), strict=False)
    assert unexpected == []
    return model, missing


def test_xlan_names_are_complete():
    encoder, decoder = with_parameters("xlan_encoder")[1], with_parameters("xlan_decoder_step")[1]
    model, missing = xlan_model(encoder | decoder)
    assert missing == []
    assert len(encoder | decoder) == len(model.state_dict()) == 145


def test_xlan_encoder():
    golden, official = with_parameters("xlan_encoder")
    model, _ = xlan_model(official)
    memory = model.encode(Images.of(golden["in/regions"], golden["in/mask"].bool()))
    close(memory.summary, golden["out/global_feat"])
    close(memory.values, golden["out/region_feats"])


def test_xlan_decoder_step():
    golden, official = with_parameters("xlan_decoder_step")
    model, _ = xlan_model(official)
    memory = GlobalMemory(
        golden["in/region_feats"], golden["in/mask"].bool(), golden["in/global_feat"]
    )
    state = model.start(memory)
    close(state.key_value[0][:, 0], golden["mid/keys"])
    close(state.key_value[1][:, 0], golden["mid/values2"])
    names = {"h": "h", "c": "c", "context": "ctx"}
    state = replace(
        state, **{ours: golden[f"in/{theirs}_prev"][:, None] for ours, theirs in names.items()}
    )
    out, state = model.step(golden["in/token"][:, None], state)
    close(out[:, 0], golden["out/logprobs"])
    for ours, theirs in names.items():
        close(getattr(state, ours)[:, 0], golden[f"out/{theirs}"])


def test_up_down_decoder_step():
    golden, official = with_parameters("updown_decoder_step")
    config = {
        "kind": "up_down",
        "d_model": 16,
        "d_word": 14,
        "d_attention": 10,
    }
    model = build_model(config, InputSpec({"main": 20}, VOCABULARY)).double().eval()
    model.load_state_dict(imported("up_down", official))
    regions = golden["in/regions"]
    state = model.start(
        model.encode(Images.of(regions, torch.ones(regions.shape[:2], dtype=torch.bool)))
    )
    close(state.key_value[0][:, 0], golden["mid/p_att_feats"])
    cells = (golden[f"in/{kind}_prev"][index][:, None] for index in (0, 1) for kind in ("h", "c"))
    state = replace(state, **dict(zip(("h1", "c1", "h2", "c2"), cells, strict=True)))
    out, state = model.step(golden["in/token"][:, None], state)
    close(out[:, 0], golden["out/logprobs_tanh"])
    close(state.h2[:, 0], golden["out/h_lang_tanh"])
    close(state.c2[:, 0], golden["out/c_lang_tanh"])
    close(state.h1[:, 0], golden["out/h_att_tanh"])
    close(state.c1[:, 0], golden["out/c_att_tanh"])


def layer_parameters(official, stack):
    """Rename one layer's parameters as those of a stack's first layer."""
    names = {f"{stack}.0.{name}": value for name, value in official.items()}
    renamed = rename(names, X_TRANSFORMER_RULES)
    return {name.removeprefix(f"{stack}.0."): value for name, value in renamed.items()}


def test_x_transformer_encoder_layer():
    golden, official = with_parameters("xtransformer_encoder_layer")
    layer = XEncoderLayer(SIZES).double().eval()
    layer.load_state_dict(layer_parameters(official, "encoder"))
    mask = golden["in/mask"].bool()[:, None, None]
    g, x = layer(golden["in/gx"][:, None, None], golden["in/x"][:, None], mask)
    close(g[:, 0, 0], golden["out/gx"])
    close(x[:, 0], golden["out/x"])


def test_x_transformer_decoder_layer():
    golden, official = with_parameters("xtransformer_decoder_layer")
    layer = XDecoderLayer(SIZES, last=False).double().eval()
    layer.load_state_dict(layer_parameters(official, "decoder"))
    x = Rows(golden["in/x"][:, None])
    g, x = layer(
        Rows(golden["in/gx"][:, None]),
        x,
        layer.image.key_value(Rows(golden["in/encoder_out"][:, None])),
        golden["in/seq_mask"].bool()[:, None],
        golden["in/att_mask"].bool()[:, None],
    )
    close(g.values[:, 0], golden["out/gx"])
    close(x.values[:, 0], golden["out/x"])


def official_x_transformer():
    """The names of a released model with 2+2 layers, and its table of positions."""
    encoder = with_parameters("xtransformer_encoder_layer")[1]
    decoder = with_parameters("xtransformer_decoder_layer")[1]
    stopped = ("bifeat_emb", "layer_norm_x", "ff_layer")  # what the last decoder layer lacks
    names = {
        f"encoder.layers.{index}.{name}": value
        for index in (0, 1)
        for name, value in encoder.items()
    }
    names |= {f"decoder.layers.0.{name}": value for name, value in decoder.items()}
    names |= {
        f"decoder.layers.1.{name}": value
        for name, value in decoder.items()
        if not name.startswith(stopped)
    }
    linear = {"att_embed.0": (20, D), "encoder.proj_norm.0": (3 * D, D), "decoder.wbil1.0": (D, D)}
    linear |= {
        "decoder.wbil2.0": (D, D),
        "decoder.proj_norm.0": (3 * D, 2 * D),
        "decoder.generator": (D, VOCABULARY),
    }
    norms = ["att_embed.2", "encoder.proj_norm.1", "decoder.layer_norm_word"]
    norms += [f"decoder.{name}.2" for name in ("wbil1", "wbil2", "proj_norm")]
    modules = {name: nn.Linear(*size) for name, size in linear.items()} | {
        name: nn.LayerNorm(D) for name in norms
    }
    for name, module in modules.items():
        names |= {f"{name}.{kind}": value for kind, value in module.state_dict().items()}
    return names | {"decoder.embed_tokens.weight": torch.randn(VOCABULARY, D)}


def test_x_transformer_names_are_complete():
    official = official_x_transformer()
    sizes = {"d_model": D, "heads": HEADS, "d_joint": JOINT, "d_feed_forward": 64}
    config = {"kind": "x_transformer", **sizes, "encoder_layers": 2, "decoder_layers": 2}
    model = build_model(config, InputSpec({"main": 20}, VOCABULARY)).double()
    model.load_state_dict(imported("x_transformer", official))
    released = with_parameters("positional_tables")[0]["out/xtransformer_16"]
    assert torch.equal(model.positions[:20].float(), released)
    config = {
        "kind": "transformer",
        "d_model": 16,
        "heads": 2,
        "encoder_layers": 1,
        "decoder_layers": 1,
    }
    plain = build_model(config, InputSpec({"main": 5}, 9))
    assert torch.equal(plain.positions[:20], released)  # the same code
    # a table of the release's own is taken as it is
    table = torch.randn(1, 5000, D, dtype=torch.float64)
    model.load_state_dict(X_TRANSFORMER.rename(official | {"decoder.embed_positions.pe": table}))
    assert torch.equal(model.positions, table[0, : len(model.positions)])
    # the same sinusoids, but only twenty of them
    short = {"decoder.embed_positions.pe": released[None]}
    model.load_state_dict(X_TRANSFORMER.rename(official | short))
    assert torch.equal(model.positions[:20].float(), released) and model.positions[20:].any()


def test_a_short_table_of_other_positions_is_refused_in_one_sentence():
    table = {"decoder.embed_positions.pe": torch.randn(1, 55, D)}
    with refused(ConfigError, "55 rows", "128 positions"):
        X_TRANSFORMER.rename(official_x_transformer() | table)
