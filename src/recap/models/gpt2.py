"""GPT-2 (Radford et al. 2019) as a decoder of captions
and as a language model, and its pretrained weights.

Pre-norm blocks, learned positions, GELU in its tanh form, layer norms with eps 1e-5, output tied to
the word table:

    a = x + attention(norm_1(x));  x' = a + feed_forward(norm_2(a));  logits = W_e norm(x_L)

Expected: 124.4 M parameters at width 768 with 12 layers, 1,024 positions and 50,257 pieces.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from recap.core import checksums
from recap.core.documents import parse_json
from recap.core.errors import ConfigError, MissingSettings, first_line
from recap.core.files import atomic_path
from recap.core.log import log
from recap.data.vocabulary import AnyVocabulary
from recap.models.released import rename
from recap.models.transformer import LayerCache, with_cached
from recap.nn.attention import MultiHeadAttention
from recap.nn.fast import Linear, product
from recap.nn.layers import Dropout, FeedForward, Stack
from recap.nn.rows import PackedIndex, Rows, causal_mask

DEVIATION = 0.02  # of GPT-2's random weights


class Gpt2Block(nn.Module):
    """One block: rows of [B, C, T, D] -> rows of [B, C, T, D].

    Dropout is on the sum of each residual connection.
    """

    def __init__(
        self,
        *,
        d_model: int,
        heads: int,
        d_feed_forward: int,
        dropout: float,
        feed_forward: bool = True,
    ) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(d_model)
        self.attention = MultiHeadAttention(d_model=d_model, heads=heads)
        self.dropout = Dropout(dropout)
        self.feed_forward_norm: nn.Module | None = None
        self.feed_forward: nn.Module | None = None
        if feed_forward:
            self.feed_forward_norm = nn.LayerNorm(d_model)
            self.feed_forward = FeedForward(
                d_model=d_model, d_hidden=d_feed_forward, activation="gelu_tanh", dropout=0.0
            )

    def forward(self, x: Rows, self_mask: Tensor | None, past: LayerCache | None = None) -> Rows:
        """Apply the block; masks and `past` as of `recap.models.transformer.DecoderLayer`."""
        return self.after(self.attend(x, self_mask, past))

    def attend(self, x: Rows, self_mask: Tensor | None, past: LayerCache | None) -> Rows:
        """Self-attention over the tokens so far, with its residual connection."""
        normed = x.map(self.attention_norm)
        attended = self.attention(
            normed, with_cached(past, self.attention.key_value(normed)), attn_mask=self_mask
        )
        return x.like(self.dropout(x.values + attended.values))

    def after(self, x: Rows) -> Rows:
        """Feed-forward, with its residual connection."""
        if self.feed_forward is None or self.feed_forward_norm is None:
            return x.map(self.dropout)
        return x.like(self.dropout(x.values + self.feed_forward(self.feed_forward_norm(x.values))))


BlockT = TypeVar("BlockT", bound=Gpt2Block)


class Gpt2Decoder(nn.Module, Generic[BlockT]):
    """Words, positions (the most tokens of a caption), blocks, last norm and tied output."""

    def __init__(
        self, *, vocabulary_size: int, d_model: int, positions: int, blocks: Sequence[BlockT]
    ) -> None:
        super().__init__()
        self.word_embedding = nn.Embedding(vocabulary_size, d_model)
        self.position_embedding = nn.Embedding(positions, d_model)
        self.blocks = Stack[BlockT](blocks)
        self.norm = nn.LayerNorm(d_model)

    def embed(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Token ids [...] and their positions, broadcastable to [...] -> [..., D].

        See `check_length`.
        """
        return self.word_embedding(tokens) + self.position_embedding(positions.expand_as(tokens))

    def check_length(self, tokens: int) -> None:
        """Refuse captions of so many tokens if there are fewer positions."""
        longest = self.position_embedding.num_embeddings
        if tokens > longest:
            raise ConfigError(
                f"a caption of {tokens} tokens, <bos> among them, is longer than the {longest} "
                "learned positions; raise `positions` of the model, or lower max_length of "
                "vocabulary and evaluation"
            )

    def logits(self, hidden: Tensor) -> Tensor:
        """[..., D] -> [..., V], with the word table."""
        return product(hidden, self.word_embedding.weight, None)


class LanguageModel(nn.Module):
    """GPT-2 without pictures: next tokens of texts."""

    def __init__(
        self, *, vocabulary_size: int, d_model: int, layers: int, positions: int, **sizes: Any
    ) -> None:
        super().__init__()
        blocks = [Gpt2Block(d_model=d_model, **sizes) for _ in range(layers)]
        self.decoder = Gpt2Decoder[Gpt2Block](
            vocabulary_size=vocabulary_size, d_model=d_model, positions=positions, blocks=blocks
        )
        initialize(self.decoder)

    def forward(self, tokens: Tensor, index: PackedIndex | None = None) -> Tensor:
        """Tokens [B, T] -> hidden of each, [B, T, D].

        With an index those of the R real tokens, [R, D].
        """
        self.decoder.check_length(tokens.shape[-1])
        if index is None:
            x = Rows(
                self.decoder.embed(tokens, torch.arange(tokens.shape[-1], device=tokens.device))[
                    :, None
                ]
            )
        else:
            x = Rows(self.decoder.embed(index.pack(tokens[:, None]), index.positions), index)
        mask = causal_mask(tokens.shape[-1], tokens.device)
        for block in self.decoder.blocks:
            x = block(x, mask)
        hidden = self.decoder.norm(x.values)
        return hidden if index is not None else hidden[:, 0]

    def logits(self, hidden: Tensor) -> Tensor:
        """[..., D] -> [..., V]."""
        return self.decoder.logits(hidden)


def initialize(decoder: Gpt2Decoder[BlockT]) -> None:
    """Draw GPT-2's random weights: N(0, 0.02), biases 0, residual ends / sqrt(2 layers)."""
    for module in decoder.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=DEVIATION)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
    for block in decoder.blocks:
        ends: list[Linear] = [block.attention.output]
        if isinstance(block.feed_forward, FeedForward):
            ends.append(block.feed_forward.outer)
        for end in ends:
            nn.init.normal_(end.weight, std=DEVIATION / math.sqrt(2 * len(decoder.blocks)))


# Pretrained weights: of the released GPT-2, or of `recap pretrain-lm`. Only safetensors files are
# read, which hold tensors and no code.

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
# causal masks, and the word table once more
NOT_NEEDED = r"h\.\d+\.attn\.(bias|masked_bias)|lm_head\.weight"


@dataclass(frozen=True)
class _Metadata:
    """What a language model of ours says of itself beside its tensors."""

    heads: int
    vocabulary_hash: str


def save_language_model(
    path: Path, decoder: nn.Module, vocabulary_hash: str, *, heads: int
) -> None:
    """Write the weights of a decoder with what their shapes do not say,
    atomically, and their sha256 beside them."""
    from safetensors.torch import save_file

    tensors = {
        name: value.detach().cpu().contiguous() for name, value in decoder.state_dict().items()
    }
    about = json.dumps({"heads": heads, "vocabulary_hash": vocabulary_hash})
    with atomic_path(path) as temporary:
        # one key: the order of several changes between runs
        save_file(tensors, temporary, metadata={METADATA: about})
    checksums.record(path)


def load_pretrained(
    decoder: nn.Module, path: Path, vocabulary: AnyVocabulary | None, *, source: str | None = None
) -> None:
    """Give a `Gpt2Decoder` the first blocks and positions of a file, as many as it has itself.

    The file is that of the released GPT-2, whose word table is put in the order of the vocabulary's
    ids (None: its own order), or of `recap pretrain-lm`. What is taken is logged; `source` is what
    the settings call the weights.
    """
    checksums.check(path)
    tensors, metadata = _read(path)
    if METADATA in metadata:
        _check_own(path, metadata[METADATA], decoder, vocabulary)
    else:
        tensors = _released(path, tensors, vocabulary)
    places = decoder.state_dict()
    positions = tensors.get("position_embedding.weight")
    if positions is not None and positions.dim():
        tensors["position_embedding.weight"] = positions[: len(places["position_embedding.weight"])]
    taken = {name: tensors[name] for name in places if name in tensors}
    left_random = [name for name in places if name not in tensors]
    not_used = [name for name in tensors if name not in places]
    missing = [name for name in left_random if not re.search(r"\.(cross|fusion)\.", name)]
    if missing:
        raise ConfigError(
            f"{path}: lacks {missing[0]!r} and {len(missing) - 1} other tensors; take a deeper "
            "model, or lower decoder_layers"
        )
    for name, value in taken.items():
        _check_tensor(path, name, value, places[name].shape)
    decoder.load_state_dict(taken, strict=False)
    log.info(
        f"{source or path}: {_listed('taken', taken)}{_listed('; left random', left_random)}"
        f"{_listed('; of the file not used', not_used)}"
    )


def _check_own(
    path: Path, about: str, decoder: nn.Module, vocabulary: AnyVocabulary | None
) -> None:
    """Refuse a language model of `recap pretrain-lm` with other words or heads."""
    own = parse_json(about.encode(), f"{path}: metadata", _Metadata)
    if vocabulary is not None and vocabulary.hash != own.vocabulary_hash:
        raise ConfigError(
            f"{path}: its vocabulary has the hash {own.vocabulary_hash}, that of the captions "
            f"{vocabulary.hash}; train the language model again with the vocabulary of this "
            "data set (recap pretrain-lm --vocabulary)"
        )
    attentions = (each for each in decoder.modules() if isinstance(each, MultiHeadAttention))
    heads = next(attentions).heads
    if heads != own.heads:  # which no shape tells
        raise ConfigError(
            f"{path}: has {own.heads} heads, the model {heads}; give both the same number"
        )


def _check_tensor(path: Path, name: str, value: Tensor, shape: torch.Size) -> None:
    """Refuse a tensor of another shape, or of other than finite numbers."""
    if value.shape == shape and value.is_floating_point() and bool(value.isfinite().all()):
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


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise MissingSettings(
            f"{path}: no such weights; put them there, or correct `weights` of the model"
        )
    if path.suffix != ".safetensors":
        raise ConfigError(
            f"{path}: only safetensors files are read, because other formats can run code; convert "
            "it"
        )
    try:
        with safe_open(path, "pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise ConfigError(
            f"{path}: is no whole safetensors file ({first_line(error)}); fetch it again"
        ) from error


def rename_gpt2(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Map the released GPT-2's names and layouts to ours:
    linear layers are (in, out), queries, keys, values one."""
    own: dict[str, Tensor] = {}
    for name, value in state.items():
        short = name.removeprefix("transformer.")
        if not re.fullmatch(NOT_NEEDED, short):
            own[short] = value.T if ".c_" in short and value.dim() == 2 else value
    return rename(own, NAMES)


def _released(
    path: Path, state: dict[str, Tensor], vocabulary: AnyVocabulary | None
) -> dict[str, Tensor]:
    """Rename GPT-2's tensors and put its word table in the order of our ids."""
    try:
        tensors = rename_gpt2(state)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    if vocabulary is None:
        return tensors
    rows = getattr(vocabulary, "rows", None)  # of GPT-2's table, for each of our ids
    table = tensors.get("word_embedding.weight", torch.empty(0))
    if rows is None or (table.dim() == 2 and max(rows) >= len(table)):
        raise ConfigError(
            f"{path}: GPT-2's weights go with its own byte pairs, the vocabulary has other pieces; "
            "set `vocabulary: "
            "{kind: bpe, ...}` of the data set"
        )
    if table.dim() == 2:
        tensors["word_embedding.weight"] = table[torch.tensor(rows)]
    return tensors
