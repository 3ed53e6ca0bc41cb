"""Miniatures of repositories of the HuggingFace hub: small networks of timm, a small GPT-2 and its byte pairs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from rehearsal.world import sentence

_PIECES = ("+=", "<?")  # of GPT-2's vocabulary, which our special tokens are
_END = "<|endoftext|>"
_VOCABULARY = 400
_TEXTS = 200


def write_timm(backbone: str, folder: Path) -> None:
    """Write ``model.safetensors`` and ``config.json`` of a network of timm with random weights."""
    import torch
    from safetensors.torch import save_file

    from recap.features.backbones import timm_library

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = timm_library().create_model(backbone, pretrained=False)
    folder.mkdir(parents=True, exist_ok=True)
    save_file({name: value.contiguous() for name, value in model.state_dict().items()}, folder / "model.safetensors")
    name, _, tag = backbone.partition(".")
    (folder / "config.json").write_text(json.dumps({"architecture": name, "pretrained_cfg": {"tag": tag}}))


def write_gpt2(folder: Path, *, width: int, feed_forward: int, layers: int, positions: int) -> None:
    """Write weights, byte pairs and configuration of a small GPT-2, under the names of the released files.

    Args:
        folder: of the repository.
        width: of the word table.
        feed_forward: width inside the blocks.
        layers: blocks.
        positions: learned positions.
    """
    folder.mkdir(parents=True, exist_ok=True)
    words = _write_byte_pairs(folder)
    _write_weights(folder / "model.safetensors", words, width, feed_forward, layers, positions)
    sizes = {"n_embd": width, "n_layer": layers, "n_positions": positions, "vocab_size": words}
    (folder / "config.json").write_text(json.dumps({"model_type": "gpt2", **sizes}))


def _write_byte_pairs(folder: Path) -> int:
    """Write ``tokenizer.json``, ``vocab.json`` and ``merges.txt``, and return the number of pieces."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    texts = [sentence(number).lower() for number in range(_TEXTS)] + [" ".join(_PIECES)] * _TEXTS
    trainer = trainers.BpeTrainer(
        vocab_size=_VOCABULARY,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=[_END],
        show_progress=False,
    )
    tokenizer.train_from_iterator([*texts, *_PIECES * _TEXTS], trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    model = json.loads((folder / "tokenizer.json").read_text())["model"]
    (folder / "vocab.json").write_text(json.dumps(model["vocab"]))
    pairs = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *pairs, ""]))
    return len(model["vocab"])


def _write_weights(path: Path, words: int, width: int, feed_forward: int, layers: int, positions: int) -> None:
    from safetensors.numpy import save_file

    shapes: dict[str, tuple[int, ...]] = {"wte.weight": (words, width), "wpe.weight": (positions, width)}
    shapes |= {"ln_f.weight": (width,), "ln_f.bias": (width,)}
    for layer in range(layers):
        shapes |= {
            f"h.{layer}.ln_1.weight": (width,),
            f"h.{layer}.ln_1.bias": (width,),
            f"h.{layer}.attn.c_attn.weight": (width, 3 * width),
            f"h.{layer}.attn.c_attn.bias": (3 * width,),
            f"h.{layer}.attn.c_proj.weight": (width, width),
            f"h.{layer}.attn.c_proj.bias": (width,),
            f"h.{layer}.ln_2.weight": (width,),
            f"h.{layer}.ln_2.bias": (width,),
            f"h.{layer}.mlp.c_fc.weight": (width, feed_forward),
            f"h.{layer}.mlp.c_fc.bias": (feed_forward,),
            f"h.{layer}.mlp.c_proj.weight": (feed_forward, width),
            f"h.{layer}.mlp.c_proj.bias": (width,),
        }
    random = np.random.default_rng(0)
    tensors = {
        name: np.full(shape, float("ln_" in name and name.endswith("weight")), np.float32)
        if len(shape) == 1
        else (0.02 * random.standard_normal(shape)).astype(np.float32)
        for name, shape in shapes.items()
    }
    save_file(tensors, path)
