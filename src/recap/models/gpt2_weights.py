"""Pretrained weights of a GPT-2 decoder, of the released GPT-2 or of `recap pretrain-lm`, and a report of the loading.

Only safetensors files are read, which hold tensors and no code.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from recap.core import checksums
from recap.core.documents import parse_json
from recap.core.errors import ConfigError, MissingSettings, first_line
from recap.core.files import atomic_path
from recap.core.log import log
from recap.data.vocabulary import AnyVocabulary
from recap.nn.attention import MultiHeadAttention

METADATA = "language_model"  # key of safetensors' metadata: JSON with the hash of the vocabulary
# The released model's names, after "transformer." if the whole model was saved.
NAMES = [
    (r"^wte\.weight$", "word_embedding.weight"),
    (r"^wpe\.weight$", "position_embedding.weight"),
    (r"^h\.(\d+)\.ln_1\.(weight|bias)$", r"blocks.\1.attention_norm.\2"),
    (r"^h\.(\d+)\.ln_2\.(weight|bias)$", r"blocks.\1.feed_forward_norm.\2"),
    (r"^h\.(\d+)\.attn\.c_attn\.(weight|bias)$", r"blocks.\1.attention.query+key+value.\2"),
    (r"^h\.(\d+)\.attn\.c_proj\.(weight|bias)$", r"blocks.\1.attention.output.\2"),
    (r"^h\.(\d+)\.mlp\.c_fc\.(weight|bias)$", r"blocks.\1.feed_forward.inner.\2"),
    (r"^h\.(\d+)\.mlp\.c_proj\.(weight|bias)$", r"blocks.\1.feed_forward.outer.\2"),
    (r"^ln_f\.(weight|bias)$", r"norm.\1"),
]
NOT_NEEDED = r"h\.\d+\.attn\.(bias|masked_bias)|lm_head\.weight"  # causal masks, and the word table once more


@dataclass(frozen=True)
class _Metadata:
    """What a language model of ours says of itself beside its tensors."""

    heads: int
    vocabulary_hash: str


@dataclass(frozen=True)
class LoadingReport:
    """Names of a decoder's tensors, taken from the file or left random, and those of the file that have no place."""

    taken: list[str]
    random: list[str]
    unused: list[str]

    def text(self) -> str:
        """Return it in a sentence, with the names of modules."""
        parts = [f"{len(self.taken)} tensors taken"]
        parts += [f"left random: {_listed(self.random)}"] if self.random else []
        parts += [f"of the file not used: {_listed(self.unused)}"] if self.unused else []
        return "; ".join(parts)


def _listed(names: list[str]) -> str:
    """Return how many tensors these are and of which modules, without the numbers of blocks."""
    modules = dict.fromkeys(re.sub(r"blocks\.\d+\.", "blocks.*.", name).rsplit(".", 1)[0] for name in names)
    return f"{len(names)} ({', '.join(modules)})"


def save_language_model(path: Path, decoder: nn.Module, vocabulary_hash: str, *, heads: int) -> None:
    """Write the weights of a decoder with what their shapes do not say, atomically, and their sha256 beside them."""
    from safetensors.torch import save_file

    tensors = {name: value.detach().cpu().contiguous() for name, value in decoder.state_dict().items()}
    made = json.dumps({"heads": heads, "vocabulary_hash": vocabulary_hash})
    with atomic_path(path) as temporary:
        save_file(tensors, temporary, metadata={METADATA: made})  # one key: the order of several changes between runs
    checksums.record(path)


def load_pretrained(
    decoder: nn.Module, path: Path, vocabulary: AnyVocabulary | None, *, source: str | None = None
) -> LoadingReport:
    """Give a `Gpt2Decoder` the first blocks and positions of a file, as many as it has itself.

    The file is that of the released GPT-2, whose word table is put in the order of the vocabulary's ids (None: its own
    order), or of `recap pretrain-lm`. What is taken is logged; `source` is what the settings call the weights.
    """
    checksums.check(path)
    tensors, metadata = _read(path)
    if METADATA in metadata:
        _check_own(path, parse_json(metadata[METADATA].encode(), f"{path}: metadata", _Metadata), decoder, vocabulary)
    else:
        tensors = _released(path, tensors, vocabulary)
    report = _copy(decoder, tensors, path)
    log.info(f"{source or path}: {report.text()}")
    return report


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise MissingSettings(f"{path}: no such weights; put them there, or correct `weights` of the model")
    if path.suffix != ".safetensors":
        raise ConfigError(f"{path}: only safetensors files are read, because other formats can run code; convert it")
    try:
        with safe_open(path, "pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise ConfigError(f"{path}: is no whole safetensors file ({first_line(error)}); fetch it again") from error


def _check_own(path: Path, own: _Metadata, decoder: nn.Module, vocabulary: AnyVocabulary | None) -> None:
    """Check that a language model of ours has the captioner's vocabulary and heads, which no shape tells."""
    if vocabulary is not None and vocabulary.hash != own.vocabulary_hash:
        raise ConfigError(
            f"{path}: its vocabulary has the hash {own.vocabulary_hash}, that of the captions {vocabulary.hash}; "
            "train the language model again with the vocabulary of this data set (recap pretrain-lm --vocabulary)"
        )
    heads = {module.heads for module in decoder.modules() if isinstance(module, MultiHeadAttention)}
    if heads != {own.heads}:
        raise ConfigError(f"{path}: has {own.heads} heads, the model {heads.pop()}; give both the same number")


def rename_gpt2(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Map the released GPT-2's names and layouts to ours: linear layers are (in, out), queries, keys, values one."""
    renamed: dict[str, Tensor] = {}
    for name, value in state.items():
        short = name.removeprefix("transformer.")
        if re.fullmatch(NOT_NEEDED, short):
            continue
        ours = next((re.sub(old, new, short) for old, new in NAMES if re.match(old, short)), None)
        joined = ours is not None and "query+key+value" in ours
        if ours is None or (joined and (not value.dim() or value.shape[-1] % 3)):
            raise ConfigError(f"{name!r}, {[*value.shape]}, is none of GPT-2's; give its own model.safetensors")
        if ".c_" in short and value.dim() == 2:
            value = value.T
        if joined:
            for part, third in zip(("query", "key", "value"), value.chunk(3), strict=True):
                renamed[ours.replace("query+key+value", part)] = third
        else:
            renamed[ours] = value
    return renamed


def _released(path: Path, state: dict[str, Tensor], vocabulary: AnyVocabulary | None) -> dict[str, Tensor]:
    """Rename GPT-2's tensors and put its word table in the order of our ids."""
    try:
        tensors = rename_gpt2(state)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    if vocabulary is None:
        return tensors
    rows = getattr(vocabulary, "rows", None)  # of GPT-2's table, for each of our ids
    table = tensors.get("word_embedding.weight")
    if rows is None or (table is not None and table.dim() == 2 and max(rows) >= len(table)):
        raise ConfigError(
            f"{path}: GPT-2's weights go with its own byte pairs, the vocabulary has other pieces; set `vocabulary: "
            "{kind: bpe, ...}` of the data set"
        )
    if table is not None and table.dim() == 2:
        tensors["word_embedding.weight"] = table[torch.tensor(rows)]
    return tensors


def _copy(decoder: nn.Module, tensors: dict[str, Tensor], path: Path) -> LoadingReport:
    """Copy what has a place; positions are cut to the decoder's."""
    places = decoder.state_dict()
    positions = tensors.get("position_embedding.weight")
    if positions is not None and positions.dim():
        tensors["position_embedding.weight"] = positions[: len(places["position_embedding.weight"])]
    report = LoadingReport(
        taken=[name for name in places if name in tensors],
        random=[name for name in places if name not in tensors],
        unused=[name for name in tensors if name not in places],
    )
    missing = [name for name in report.random if not re.search(r"\.(cross|fusion)\.", name)]
    if missing:
        raise ConfigError(
            f"{path}: lacks {missing[0]!r} and {len(missing) - 1} other tensors; take a deeper model, or lower "
            "decoder_layers"
        )
    for name in report.taken:
        value, shape = tensors[name], places[name].shape
        if value.shape != shape or not value.is_floating_point() or not bool(value.isfinite().all()):
            raise ConfigError(
                f"{path}: {name!r} is {[*value.shape]} of {value.dtype}, the model's is {[*shape]} of finite floats; "
                "give both the same sizes (d_model, d_feed_forward, positions, vocabulary), or make the file again"
            )
    with torch.no_grad():
        for name in report.taken:
            places[name].copy_(tensors[name])
    return report
