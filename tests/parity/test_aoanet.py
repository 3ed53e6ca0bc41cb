"""AoANet against the golden vectors (official code, float64)."""

from dataclasses import replace

import torch

from helpers.golden import close, with_parameters
from helpers.model_cases import build_model
from helpers.released import imported
from recap.models.images import Images, InputSpec
from recap.nn.rows import Rows
from recap.papers.aoanet import released as aoanet
from recap.papers.aoanet.model import AoAAttention
from recap.runs.released import rename


def test_block():
    golden, official = with_parameters("aoa_block")
    block = AoAAttention(
        d_model=16, heads=4, order="attended_query", attention_dropout=0.1, aoa_dropout=0.3
    )
    block.double().eval().load_state_dict(rename(official, aoanet.BLOCK_RULES))
    source = Rows(golden["in/query"][:, None])  # key and value are the query
    key_value = block.key_value(source)
    mask, seen = golden["in/mask"].bool()[:, None, None], {}
    block.attention.register_forward_hook(lambda _, inputs, out: seen.update(attended=out.values))
    watched = block.attention.weights.register_forward_hook(
        lambda _, inputs, out: seen.update(weights=out)
    )
    close(block(source, key_value, attn_mask=mask).values[:, 0], golden["out/y"])
    close(seen["weights"][:, 0], golden["mid/attention_weights"])
    close(seen["attended"][:, 0], golden["mid/attended"])
    watched.remove()
    close(block(source, key_value, attn_mask=mask).values[:, 0], golden["out/y"])
    for everything in (torch.ones_like(mask), None):
        close(block(source, key_value, attn_mask=everything).values[:, 0], golden["out/y_nomask"])


def built(refiner_layers):
    config = {"kind": "aoanet", "d_model": 12, "heads": 4, "refiner_layers": refiner_layers}
    return build_model(config, InputSpec({"main": 20}, 12)).double().eval()


def test_decoder_step():
    golden, official = with_parameters("aoa_decoder_step")
    model = built(0)
    model.load_state_dict(imported("aoanet", official))
    memory = model.encode(Images.of(golden["in/regions"], golden["in/mask"].bool()))
    close(memory.values, golden["mid/att_feats"])
    close(memory.summary, golden["mid/mean_feats"])
    state = model.start(memory)
    values, keys = golden["mid/p_att_feats"].chunk(2, -1)
    for ours, theirs in zip(state.key_value, (keys, values), strict=True):
        close(ours[:, 0].transpose(1, 2).flatten(2), theirs)
    names = {"h": "h", "c": "c", "context": "ctx"}
    state = replace(
        state, **{ours: golden[f"in/{theirs}_prev"][:, None] for ours, theirs in names.items()}
    )
    out, state = model.step(golden["in/token"][:, None], state)
    close(out[:, 0], golden["out/logprobs"])
    for ours, theirs in names.items():
        close(getattr(state, ours)[:, 0], golden[f"out/{theirs}"])
