"""The weights that a GPT-2 begins with: those of the released one, or of `recap pretrain-lm`.

Only safetensors files are read, which hold tensors and no code.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from recap.core import checksums
from recap.core.documents import parse_json
from recap.core.errors import ConfigError
from recap.core.files import reading
from recap.core.log import log
from recap.data.vocabulary import AnyVocabulary
from recap.models.gpt2 import Gpt2Decoder
from recap.runs.folder import plain_weights, read_safetensors, save_weights
from recap.runs.released import naming, rename

METADATA = "language_model"  # key of safetensors' metadata: JSON with the hash of the vocabulary
# The released model's names, after "transformer." if the whole model was saved.
NAMES = {
    r"^wte\.weight$": "word_embedding.weight",
    r"^wpe\.weight$": "position_embedding.weight",
    r"^h\.(\d+)\.ln_1\.(weight|bias)$": r"blocks.\1.attention_norm.\2",
    r"^h\.(\d+)\.ln_2\.(weight|bias)$": r"blocks.\1.feed_forward_norm.\2",
    r"^h\.(\d+)\.attn\.c_attn\.(weight|bias)$": r"blocks.\1.attention.query+key+value.\2",
    r"^h\.(\d+)\.attn\.c_proj\.(weight|bias)$": r"blocks.\1.attention.output.\2",
    r"^h\.(\d+)\.mlp\.c_fc\.(weight|bias)$": r"blocks.\1.feed_forward.inner.\2",
    r"^h\.(\d+)\.mlp\.c_proj\.(weight|bias)$": r"blocks.\1.feed_forward.outer.\2",
    r"^ln_f\.(weight|bias)$": r"norm.\1",
}
# causal masks, and the word table once more
NOT_NEEDED = r"h\.\d+\.attn\.(bias|masked_bias)|lm_head\.weight"


@dataclass(frozen=True)
class _Metadata:
    """What a language model of ours says of itself beside its tensors."""

    heads: int
    vocabulary_hash: str


def save_language_model(
    path: Path, decoder: Gpt2Decoder[Any], vocabulary_hash: str, *, heads: int
) -> None:
    """Write the weights of a decoder with what their shapes do not say,
    atomically, and their sha256 beside them."""
    about = json.dumps({"heads": heads, "vocabulary_hash": vocabulary_hash})
    save_weights(path, plain_weights(decoder), {METADATA: about})
    checksums.record(path)


def load_pretrained(
    decoder: Gpt2Decoder[Any], path: Path, vocabulary: AnyVocabulary | None
) -> None:
    """Give a decoder the first blocks and positions of a file, as many as it has itself.

    The file is that of the released GPT-2, whose word table is put in the order of the vocabulary's
    ids (None: its own order), or of `recap pretrain-lm`. What is taken is logged.
    """
    checksums.check(path)
    tensors = _read(path, decoder, vocabulary)
    places = decoder.state_dict()
    taken = {}
    for name, place in places.items():
        if name in tensors:
            value = tensors[name]
            if name == "position_embedding.weight" and value.dim():
                value = value[: len(place)]
            _check_tensor(path, name, value, place.shape)
            taken[name] = value
    left_random = [name for name in places if name not in taken]
    missing = [name for name in left_random if not re.search(r"\.(cross|fusion)\.", name)]
    if missing:
        raise ConfigError(
            f"{path}: lacks {missing[0]!r} and {len(missing) - 1} other tensors; take a deeper "
            "model, or lower decoder_layers"
        )
    decoder.load_state_dict(taken, strict=False)
    not_used = [name for name in tensors if name not in places]
    log.info(
        f"{path}: {_listed('taken', taken)}{_listed('; left random', left_random)}"
        f"{_listed('; of the file not used', not_used)}"
    )


def _read(
    path: Path, decoder: Gpt2Decoder[Any], vocabulary: AnyVocabulary | None
) -> dict[str, Tensor]:
    """Return the tensors of a file by our names."""
    if path.suffix != ".safetensors":
        raise ConfigError(
            f"{path}: is no safetensors file, and other formats can run code; convert it"
        )
    with reading(
        path,
        ConfigError,
        missing="put it there, or correct `weights` of the model",
        damaged="fetch this safetensors file again",
    ):
        tensors, metadata = read_safetensors(path)
    if METADATA in metadata:
        _check_own(path, metadata[METADATA], decoder, vocabulary)
        return tensors
    with naming(path, "gpt2"):
        tensors = rename_gpt2(tensors)
        if vocabulary is not None:
            rows = getattr(vocabulary, "rows", None)  # of GPT-2's table, for each of our ids
            if rows is None:
                raise ConfigError(
                    "GPT-2's weights go with its own byte pairs, the vocabulary has other pieces; "
                    "set `vocabulary: {kind: bpe, ...}` of the data set"
                )
            table = tensors["word_embedding.weight"]
            tensors["word_embedding.weight"] = table[torch.tensor(rows)]
    return tensors


def _check_own(
    path: Path, about: str, decoder: Gpt2Decoder[Any], vocabulary: AnyVocabulary | None
) -> None:
    """Refuse a language model of `recap pretrain-lm` with other words or heads."""
    own = parse_json(about.encode(), f"{path}: metadata", _Metadata)
    if vocabulary is not None and vocabulary.hash != own.vocabulary_hash:
        raise ConfigError(
            f"{path}: its vocabulary has the hash {own.vocabulary_hash}, that of the captions "
            f"{vocabulary.hash}; train the language model again with the vocabulary of this "
            "data set (recap pretrain-lm --vocabulary)"
        )
    heads = next(iter(decoder.blocks)).attention.heads
    if heads != own.heads:  # which no shape tells
        raise ConfigError(
            f"{path}: has {own.heads} heads, the model {heads}; give both the same number"
        )


def _check_tensor(path: Path, name: str, value: Tensor, shape: torch.Size) -> None:
    """Refuse a tensor of another shape, or of other than finite numbers."""
    if value.shape == shape and value.is_floating_point() and value.isfinite().all():
        return
    raise ConfigError(
        f"{path}: {name!r} is {[*value.shape]} of {value.dtype}, the model's is {[*shape]} "
        "of finite floats; give both the same sizes (d_model, d_feed_forward, positions, "
        "vocabulary), or make the file again"
    )


def _listed(what: str, names: Collection[str]) -> str:
    """Return how many tensors these are and of which modules, without the numbers of blocks.

    Of none nothing is said.
    """
    if not names:
        return ""
    modules = dict.fromkeys(
        re.sub(r"blocks\.\d+\.", "blocks.*.", name).rsplit(".", 1)[0] for name in names
    )
    return f"{what}: {len(names)} ({', '.join(modules)})"


def rename_gpt2(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Map the released GPT-2's names and layouts to ours:
    linear layers are (in, out), queries, keys, values one."""
    own: dict[str, Tensor] = {}
    for name, value in state.items():
        short = name.removeprefix("transformer.")
        if not re.fullmatch(NOT_NEEDED, short):
            own[short] = value.T if ".c_" in short and value.dim() == 2 else value
    return rename(own, NAMES)
