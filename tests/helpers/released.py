"""Released checkpoints as files: read, and made from models of ours by the inverse of the maps."""

import argparse
import pickle
import re
import sys
import types
from collections import Counter, defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from recap.data.vocabulary import BOS, EOS, PAD, UNK
from recap.nn.layers import sinusoid_table
from recap.runs.released import NEVER, released_tensors

TABLES = re.compile(r"(^|\.)word_embedding\.weight|^output\.(weight|bias)")
NORM = [(r"norm\.weight$", "norm.a_2"), (r"norm\.bias$", "norm.b_2")]
BLOCK = [
    (r"\bkey\.linear\.", "in_proj_k.0."),
    (r"\bkey\.norm\.", "in_proj_k.2."),
    (r"\bquery_key\.linear\.", "in_proj_q.0."),
    (r"\bquery_key\.norm\.", "in_proj_q.2."),
    (r"\bquery_value\.linear\.", "in_proj_v1.0."),
    (r"\bquery_value\.norm\.", "in_proj_v1.2."),
    (r"\bvalue\.linear\.", "in_proj_v2.0."),
    (r"\bvalue\.norm\.", "in_proj_v2.2."),
    (r"\bjoint\.", "attn_net.attention_basic.0."),
    (r"\bspatial\.", "attn_net.attention_last."),
    (r"\bchannel\.", "attn_net.attention_last2."),
]
XLAN = [
    *BLOCK,
    (r"^feature_embedding\.", "att_embed.0."),
    (r"^encoder\.blocks\.(\d+)\.", r"encoder_layers.layers.\1.encoder_attn."),
    (r"^encoder\.mixes\.(\d+)\.linear\.", r"encoder_layers.bifeat_emb.\1.0."),
    (r"^encoder\.mixes\.(\d+)\.norm\.", r"encoder_layers.layer_norms.\1."),
    (r"^encoder\.projection\.", "encoder_layers.proj."),
    (r"^encoder\.norm\.", "encoder_layers.layer_norm."),
    (r"^word_embedding\.", "word_embed.0."),
    (r"^lstm\.", "att_lstm."),
    (r"^attention\.", "attention.layers.0.encoder_attn."),
    (r"^attended\.linear\.", "attention.proj."),
    (r"^attended\.norm\.", "attention.layer_norm."),
    (r"^attended\.gate\.", "att2ctx.0."),
    (r"^output\.", "logit."),
]
X_TRANSFORMER = [
    *BLOCK,
    (r"^feature_embedding\.", "att_embed.0."),
    (r"^feature_norm\.", "att_embed.2."),
    (r"^global_projection\.", "encoder.proj_norm.0."),
    (r"^global_norm\.", "encoder.proj_norm.1."),
    (r"^image_side\.linear\.", "decoder.wbil1.0."),
    (r"^image_side\.norm\.", "decoder.wbil1.2."),
    (r"^word_side\.linear\.", "decoder.wbil2.0."),
    (r"^word_side\.norm\.", "decoder.wbil2.2."),
    (r"^word_embedding\.", "decoder.embed_tokens."),
    (r"^word_norm\.", "decoder.layer_norm_word."),
    (r"^read_off\.", "decoder.proj_norm.0."),
    (r"^output_norm\.", "decoder.proj_norm.2."),
    (r"^output\.", "decoder.generator."),
    (r"^positions$", "decoder.embed_positions.pe"),
    (r"^(encoder|decoder)\.(\d+)\.", r"\1.layers.\2."),
    (r"^(encoder\.layers\.\d+)\.block\.", r"\1.encoder_attn."),
    (r"^(decoder\.layers\.\d+)\.words\.", r"\1.word_attn."),
    (r"^(decoder\.layers\.\d+)\.words_norm\.", r"\1.layer_norm_cross."),
    (r"^(decoder\.layers\.\d+)\.image\.", r"\1.cross_att."),
    (r"^(decoder\.layers\.\d+)\.image_norm\.", r"\1.layer_norm_gx."),
    (r"\.update\.mix\.linear\.", ".bifeat_emb.0."),
    (r"^(encoder.*)\.update\.mix\.norm\.", r"\1.layer_norm."),
    (r"^(decoder.*)\.update\.mix\.norm\.", r"\1.layer_norm_x."),
    (r"\.update\.feed_forward\.inner\.", ".ff_layer.fc1."),
    (r"\.update\.feed_forward\.outer\.", ".ff_layer.fc2."),
    (r"\.update\.around_feed_forward\.norm\.", ".ff_layer.layer_norms."),
]
UP_DOWN = [
    (r"^feature_embedding\.", "att_embed.0."),
    (r"^word_embedding\.", "word_embed.0."),
    (r"^attention_lstm\.", "lstm1."),
    (r"^language_lstm\.", "lstm2."),
    (r"^attention\.key\.", "p_att_feats."),
    (r"^attention\.query\.", "att.Wah."),
    (r"^attention\.score\.", "att.alpha."),
    (r"^output\.", "logit."),
]
AOANET = [
    (r"^refiner\.(\d+)\.around\.norm\.", r"refiner.layers.\1.sublayer.0.norm."),
    (r"^refiner\.(\d+)\.attention\.aoa\.linear\.", r"refiner.layers.\1.self_attn.aoa_layer.0."),
    *(
        (
            rf"^refiner\.(\d+)\.attention\.attention\.{name}\.",
            rf"refiner.layers.\1.self_attn.linears.{index}.",
        )
        for index, name in enumerate(("query", "key", "value"))
    ),
    (r"^refiner_norm\.", "refiner.norm."),
    (r"^feature_embedding\.", "att_embed.0."),
    (r"^word_embedding\.", "embed.0."),
    (r"^lstm\.", "core.att_lstm."),
    (r"^query_norm\.", "core.attention.norm."),
    (r"^attention\.query\.", "core.attention.linears.0."),
    (r"^aoa\.linear\.", "core.att2ctx.0."),
    (r"^output\.", "logit."),
    *NORM,
]


def annotated(*projections):
    """Return the inverse names of a Transformer in the Annotated Transformer's form."""
    return [
        (r"^feature_embedding\.", "att_embed.0."),
        (r"^word_embedding\.", "model.tgt_embed.0.lut."),
        (r"^output\.", "model.generator.proj."),
        (r"^(encoder|decoder)_norm\.", r"model.\1.norm."),
        (r"^(encoder|decoder)\.(\d+)\.", r"model.\1.layers.\2."),
        (r"\.attention\.", ".self_attn."),
        (r"\.cross\.", ".src_attn."),
        *(
            (rf"(attn)\.{name}\.", rf"\1.linears.{index}.")
            for index, name in enumerate(projections)
        ),
        (r"\.feed_forward\.inner\.", ".feed_forward.w_1."),
        (r"\.feed_forward\.outer\.", ".feed_forward.w_2."),
        (r"\.around_attention\.", ".sublayer.0."),
        (r"\.around_cross\.", ".sublayer.1."),
        (r"(encoder.*)\.around_feed_forward\.", r"\1.sublayer.1."),
        (r"(decoder.*)\.around_feed_forward\.", r"\1.sublayer.2."),
        (r"norm\.weight$", "norm.a_2"),
        (r"norm\.bias$", "norm.b_2"),
    ]


PROJECTIONS = [
    (rf"\.{name}\.(weight|bias)$", rf".fc_{name[0]}.\1")
    for name in ("query", "key", "value", "output")
]
M2 = [
    (r"^feature_embedding\.", "encoder.fc."),
    (r"^feature_norm\.", "encoder.layer_norm."),
    (r"^word_embedding\.", "decoder.word_emb."),
    (r"^output\.", "decoder.fc."),
    (r"^(encoder|decoder)\.(\d+)\.", r"\1.layers.\2."),
    (r"^(encoder\.layers\.\d+)\.attention\.memory_key$", r"\1.mhatt.attention.m_k"),
    (r"^(encoder\.layers\.\d+)\.attention\.memory_value$", r"\1.mhatt.attention.m_v"),
    (r"^(encoder\.layers\.\d+)\.attention\.", r"\1.mhatt.attention."),
    (r"^(encoder\.layers\.\d+)\.around_attention\.norm\.", r"\1.mhatt.layer_norm."),
    (r"^(decoder\.layers\.\d+)\.attention\.", r"\1.self_att.attention."),
    (r"^(decoder\.layers\.\d+)\.around_attention\.norm\.", r"\1.self_att.layer_norm."),
    (r"^(decoder\.layers\.\d+)\.cross\.", r"\1.enc_att.attention."),
    (r"^(decoder\.layers\.\d+)\.around_cross\.norm\.", r"\1.enc_att.layer_norm."),
    *((rf"\.mesh\.gates\.{level}\.", f".fc_alpha{level + 1}.") for level in range(3)),
    (r"\.around_feed_forward\.norm\.", ".pwff.layer_norm."),
    (r"\.feed_forward\.inner\.", ".pwff.fc1."),
    (r"\.feed_forward\.outer\.", ".pwff.fc2."),
    *PROJECTIONS,
]
GPT2_BLOCK = [
    (r"^decoder\.blocks\.", "decoder.transformer.h."),
    (
        r"^decoder\.(word|position)_embedding\.",
        lambda m: f"decoder.transformer.w{m[1][0].replace('w', 't')}e.",
    ),
    (r"^decoder\.norm\.", "decoder.transformer.ln_f."),
    (r"\.attention_norm\.", ".ln_1."),
    (r"(h\.\d+)\.feed_forward_norm\.", r"\1.ln_2."),
    (r"(h\.\d+)\.attention\.output\.", r"\1.attn.c_proj."),
    (r"(h\.\d+)\.cross\.output\.", r"\1.enc_dec_attn.c_proj."),
    (r"(h\.\d+)\.cross\.", r"\1.enc_dec_attn."),
    *((rf"\.fusion\.gate\.gates\.{level}\.", f".fc_alpha{level + 1}.") for level in range(3)),
    (r"(h\.\d+)\.feed_forward\.inner\.", r"\1.mlp.c_fc."),
    (r"(h\.\d+)\.feed_forward\.outer\.", r"\1.mlp.c_proj."),
]
INVERSE = {
    "xlan": XLAN,
    "x_transformer": X_TRANSFORMER,
    "up_down": UP_DOWN,
    "aoanet": AOANET,
    "transformer": annotated("query", "key", "value", "output"),
    "zodiac": annotated("query", "intensity_query", "key", "value", "output"),
    "m2": M2,
    "visual_gpt": [*GPT2_BLOCK, *M2],
}


def imported(kind, state):
    """Return the tensors of a released state dict by our names, as they are read from a file."""
    with TemporaryDirectory() as folder:
        file = Path(folder, "released.pth")
        torch.save(dict(state), file)
        return released_tensors(kind, file)[1]


def expressible(kind, state):
    """Change a state dict of ours into one that the release can hold:
    as many rows of words as it has."""
    state = dict(state)
    for name in filter(TABLES.search, state):
        table = state[name] = state[name].clone()
        if kind == "visual_gpt":
            table[UNK] = table[EOS].clone()
        elif kind != "m2" and name.startswith("output."):
            table[[PAD, BOS]] = NEVER if table.dim() == 1 else 0.0
        elif kind != "m2":
            table[PAD] = table[EOS] = table[BOS].clone()
    return state


def official(kind, state, rows=()):
    """Return what `expressible` gives as its release has it.

    `rows` of its word table are those of our byte pairs.
    """
    ordered = {name: _released_rows(kind, name, value, rows) for name, value in state.items()}
    if kind == "m2":
        positions = ordered.pop("positions")
        ordered["decoder.pos_emb.weight"] = torch.cat(
            [torch.zeros(1, positions.shape[1]), positions]
        )
    if kind == "aoanet":
        for part in ("weight", "bias"):
            both = [ordered.pop(f"attention.{name}.{part}") for name in ("value", "key")]
            ordered[f"ctx2att.{part}"] = torch.cat(both)
    if kind == "visual_gpt":
        ordered = _gpt2_layout(ordered)
    return {_renamed(name, INVERSE[kind]): value for name, value in ordered.items()} | _beside(
        kind, ordered
    )


def _renamed(name, rules):
    for pattern, replacement in rules:
        name = re.sub(pattern, replacement, name)
    return name


def _released_rows(kind, name, table, rows):
    if not TABLES.search(name):
        return table
    if kind == "visual_gpt":
        result = torch.zeros(max(rows) + 1, *table.shape[1:])
        result[list(rows)] = table
        return result
    if kind == "m2":
        return torch.cat([table[[UNK, PAD, BOS, EOS]], table[4:]])
    first = EOS if name.startswith("output.") else BOS
    return torch.cat([table[[first]], table[4:], table[[UNK]]])


def _gpt2_layout(state):
    result = {}
    for name, value in state.items():
        linear = re.search(
            r"blocks\.\d+\.(attention\.output|feed_forward\.(inner|outer)|cross\.output)\.weight",
            name,
        )
        part = re.fullmatch(
            r"(decoder\.blocks\.\d+)\.attention\.(query|key|value)\.(weight|bias)", name
        )
        if part is None:
            result[name] = value.T if linear else value
        elif part[2] == "query":
            parts = [
                state[f"{part[1]}.attention.{each}.{part[3]}"] for each in ("query", "key", "value")
            ]
            joined = torch.cat(parts)
            result[f"{part[1]}.attn.c_attn.{part[3]}"] = joined.T if joined.dim() == 2 else joined
    return result


def _beside(kind, state):
    """Return what the release's state dict has and no forward pass reads."""
    if kind in ("transformer", "zodiac"):
        return {
            "model.tgt_embed.1.pe": sinusoid_table(5000, len(state["encoder_norm.weight"]))[None]
        }
    if kind == "m2":
        return {
            "decoder.running_mask_self_attention": torch.zeros(1, 1, 0, dtype=torch.uint8),
            "decoder.running_seq": torch.zeros(1, dtype=torch.int64),
            "decoder.layers.0.self_att.running_keys": torch.zeros(0, 16),
        }
    if kind == "visual_gpt":
        table = state["decoder.word_embedding.weight"]
        return {
            "decoder.lm_head.decoder.weight": table,
            "decoder.transformer.h.0.attn.bias": torch.ones(1, 1, 60, 60),
            "decoder.transformer.h.0.enc_dec_attn.bias": torch.ones(1, 1, 60, 60),
            "decoder.transformer.h.0.enc_dec_attn.c_attn.weight": torch.ones(4, 4),
            "decoder.transformer.h.0.attn.running_keys": torch.zeros(2, 0, 64),
            "encoder.layers.0.mhatt.attention.c_attn_query.weight": torch.ones(4, 4),
        }
    return {}


def write_infos(path, words, **options):
    """Write `infos` of a training: options as a namespace, and the words by their ids."""
    vocabulary = {str(number): word for number, word in enumerate([*words, "UNK"], start=1)}
    infos = {
        "iter": 7,
        "opt": argparse.Namespace(**options),
        "vocab": vocabulary,
        "split_ix": {"train": [3, 1]},
    }
    path.write_bytes(pickle.dumps(infos, protocol=2))


def write_torchtext(path, words):
    """Write a pickled object of M2's class of vocabularies,
    whose module is not there when it is read."""
    module = types.ModuleType("data.vocab")
    module.Vocab = type("Vocab", (), {"__module__": "data.vocab"})
    module._default_unk_index = lambda: 0
    module._default_unk_index.__module__ = "data.vocab"
    module._default_unk_index.__qualname__ = "_default_unk_index"
    package = types.ModuleType("data")
    package.vocab = module
    sys.modules |= {"data": package, "data.vocab": module}
    try:
        vocabulary = module.Vocab()
        vocabulary.freqs = Counter(words)
        vocabulary.itos = ["<unk>", "<pad>", "<bos>", "<eos>", *words]
        vocabulary.stoi = defaultdict(
            module._default_unk_index, {word: i for i, word in enumerate(vocabulary.itos)}
        )
        vocabulary.vectors = None
        path.write_bytes(pickle.dumps(vocabulary, protocol=3))
    finally:
        del sys.modules["data"], sys.modules["data.vocab"]
