"""Miniatures of repositories of the HuggingFace hub:
small networks of timm, a small GPT-2 and its byte pairs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from recap.data.vocabulary import SPECIAL_PIECES
from rehearsal.world import sentence

_TEXTS = 200


@dataclass(frozen=True)
class Gpt2Sizes:
    """Sizes of the small GPT-2 that models of a plan begin with."""

    width: int
    feed_forward: int
    layers: int
    positions: int


def write_timm(backbone: str, folder: Path) -> None:
    """Write ``model.safetensors`` and ``config.json`` of a network of timm with random weights."""
    import torch
    from safetensors.torch import save_file

    from recap.features.backbones import timm_library

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = timm_library().create_model(backbone, pretrained=False)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(
        {name: value.contiguous() for name, value in model.state_dict().items()},
        folder / "model.safetensors",
    )
    name, _, tag = backbone.partition(".")
    (folder / "config.json").write_text(
        json.dumps({"architecture": name, "pretrained_cfg": {"tag": tag}})
    )


def write_gpt2(folder: Path, sizes: Gpt2Sizes) -> None:
    """Write weights, byte pairs and configuration of a small GPT-2,
    under the names of the released files."""
    from safetensors.numpy import save_file

    write_byte_pairs(folder, (sentence(number).lower() for number in range(_TEXTS)), pieces=400)
    words = save_tokenizer(folder, folder / "tokenizer.json")
    save_file(gpt2_tensors(words, sizes), folder / "model.safetensors")
    known = {
        "n_embd": sizes.width,
        "n_layer": sizes.layers,
        "n_positions": sizes.positions,
        "vocab_size": words,
    }
    (folder / "config.json").write_text(json.dumps({"model_type": "gpt2", **known}))


def write_byte_pairs(folder: Path, lines: Iterable[str], *, pieces: int = 290) -> Path:
    """Write byte pairs learned from lines, in GPT-2's two files:
    all 256 bytes, merges, then the special pieces."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=pieces, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(lines, trainer)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.model.save(str(folder))
    numbers = json.loads((folder / "vocab.json").read_text())
    for piece in dict.fromkeys(SPECIAL_PIECES):
        numbers[piece] = len(numbers)
    (folder / "vocab.json").write_text(json.dumps(numbers))
    return folder


def save_tokenizer(pairs: Path, out: Path) -> int:
    """Write GPT-2's two files of byte pairs as one, as its release has it beside them.

    Return the number of pieces.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    tokenizer = Tokenizer(
        models.BPE.from_file(str(pairs / "vocab.json"), str(pairs / "merges.txt"))
    )
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(out))
    return tokenizer.get_vocab_size()


def gpt2_tensors(words: int, sizes: Gpt2Sizes) -> dict[str, np.ndarray]:
    """Return random weights under the released names."""
    width, inner = sizes.width, sizes.feed_forward
    linear = {"attn.c_attn": (width, 3 * width), "attn.c_proj": (width, width)}
    linear |= {"mlp.c_fc": (width, inner), "mlp.c_proj": (inner, width)}
    random = np.random.default_rng(0)
    tensors = {
        name: 0.02 * random.standard_normal(shape)
        for name, shape in {
            "wte.weight": (words, width),
            "wpe.weight": (sizes.positions, width),
        }.items()
    }
    norms = ["ln_f"]
    for layer in range(sizes.layers):
        norms += [f"h.{layer}.ln_1", f"h.{layer}.ln_2"]
        for name, shape in linear.items():
            tensors[f"h.{layer}.{name}.weight"] = 0.02 * random.standard_normal(shape)
            tensors[f"h.{layer}.{name}.bias"] = np.zeros(shape[1])
    for name in norms:
        tensors |= {f"{name}.weight": np.ones(width), f"{name}.bias": np.zeros(width)}
    return {name: array.astype(np.float32) for name, array in tensors.items()}
