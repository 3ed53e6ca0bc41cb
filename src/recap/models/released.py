"""What a paper says of its released checkpoints: names, settings, words, and what is not needed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from recap.core.errors import ConfigError

ANNOTATED = [
    (r"^att_embed\.0\.", "feature_embedding."),
    (r"^model\.tgt_embed\.0\.lut\.", "word_embedding."),
    (r"^model\.generator\.proj\.", "output."),
    (r"^model\.(encoder|decoder)\.norm\.", r"\1_norm."),
    (r"^model\.(encoder|decoder)\.layers\.(\d+)\.", r"\1.\2."),
    (r"\.self_attn\.", ".attention."),
    (r"\.src_attn\.", ".cross."),
    (r"\.feed_forward\.w_1\.", ".feed_forward.inner."),
    (r"\.feed_forward\.w_2\.", ".feed_forward.outer."),
    (r"\.sublayer\.0\.", ".around_attention."),
    (r"^(encoder\.\d+)\.sublayer\.1\.", r"\1.around_feed_forward."),
    (r"^(decoder\.\d+)\.sublayer\.1\.", r"\1.around_cross."),
    (r"^(decoder\.\d+)\.sublayer\.2\.", r"\1.around_feed_forward."),
    (r"\.a_2$", ".weight"),
    (r"\.b_2$", ".bias"),
]
"""Names of a Transformer in the Annotated Transformer's form, as ImageCaptioning.pytorch has it."""


def rename_annotated(state: Mapping[str, Tensor], projections: Sequence[str]) -> dict[str, Tensor]:
    """Map the names of a Transformer in the Annotated Transformer's form to ours.

    `projections` are our names of an attention's `linears.0`, `linears.1` and so on.
    """
    linears = [(rf"\.linears\.{index}\.", f".{ours}.") for index, ours in enumerate(projections)]
    return rename(state, [*ANNOTATED, *linears])


def rename(state: Mapping[str, Tensor], rules: Sequence[tuple[str, str]]) -> dict[str, Tensor]:
    """Apply all rules (pattern and replacement) to every name,
    in order; a name that none applies to is refused.

    A tensor whose new name has alternatives, such as `query+key+value`, is cut into as many parts.
    """
    renamed: dict[str, Tensor] = {}
    for name, value in state.items():
        ours = name
        for pattern, replacement in rules:
            ours = re.sub(pattern, replacement, ours)
        parts = next((part.split("+") for part in ours.split(".") if "+" in part), [])
        if ours == name or (parts and (not value.dim() or len(value) % len(parts))):
            raise ConfigError(
                f"parameter {name!r}, {[*value.shape]}, is none of those that the release has; "
                "docs/guides/released_checkpoints.md lists what can be read"
            )
        if not parts:
            renamed[ours] = value
            continue
        for part, rows in zip(parts, value.chunk(len(parts)), strict=True):
            renamed[ours.replace("+".join(parts), part)] = rows
    return renamed


Tensors = Mapping[str, Tensor]
Options = Mapping[str, Any]  # of the release's configuration; nested keys are joined by dots
# Options of the releases' searches,
# a later one before an earlier one -> keys of `DecodingSettings`.
SEARCH = {"INFERENCE.BEAM_SIZE": "beam", "MODEL.SEQ_LEN": "max_length"}
SEARCH |= {"seq_length": "max_length", "max_length": "max_length"}
BUFFERS = (r"(^|\.)running_\w+$", "a buffer of its decoding")
SINUSOID = (r"model\.tgt_embed\.1\.pe", "the table of positions, which is computed")


@dataclass(frozen=True, kw_only=True)
class Release:
    """A paper's released checkpoints."""

    #: from tensors by their released names to tensors by ours
    rename: Callable[[Tensors], dict[str, Tensor]]
    #: from tensors by our names, and the release's options, to the keys of our model's settings
    settings: Callable[[Tensors, Options], dict[str, Any]]
    #: keys of `DecodingSettings` as the release decodes, if its options do not say
    decoding: Mapping[str, Any]
    #: the rows of its word tables. end_first: begin, end and padding are row 0, the unknown word is
    #: the last;
    #: torchtext: <unk>, <pad>, <bos>, <eos>, words; byte_pairs: GPT-2's pieces.
    words: Literal["end_first", "torchtext", "byte_pairs"] = "end_first"
    #: pattern of released names -> why these tensors are left out
    unused: Sequence[tuple[str, str]] = ()
    #: our names of the tensors with a row for each word
    tables: Sequence[str] = ("word_embedding.weight", "output.weight", "output.bias")
    #: our names of tensors whose columns are those of
    #: the visual vectors; the first one that is there
    features: Sequence[str] = ("feature_embedding.weight",)

    def left_out(self, state: Tensors) -> dict[str, str]:
        """Return the released names of tensors that are not needed, each with the reason."""
        reasons = {}
        for name in state:
            for pattern, why in self.unused:
                if re.search(pattern, name):
                    reasons[name] = why
        return reasons

    def renamed(self, state: Tensors) -> dict[str, Tensor]:
        """Return the tensors that are needed, by our names."""
        unused = self.left_out(state)
        return self.rename({name: value for name, value in state.items() if name not in unused})

    def feature_size(self, tensors: Tensors) -> int:
        """Return the width of the visual vectors."""
        return next(int(tensors[name].shape[1]) for name in self.features if name in tensors)

    def search(self, options: Options) -> dict[str, Any]:
        """Return the keys of `DecodingSettings`."""
        return {
            **self.decoding,
            **{key: options[name] for name, key in SEARCH.items() if name in options},
        }


def layers(tensors: Tensors, stack: str) -> int:
    """Return how many layers ``<stack>.0``, ``<stack>.1``, ... there are."""
    found = (re.match(rf"{re.escape(stack)}\.(\d+)\.", name) for name in tensors)
    return max((int(each[1]) + 1 for each in found if each), default=0)


def agree(options: Options, expected: Mapping[str, Any]) -> None:
    """Check the release's options, where given, against its tensors or our model."""
    for name, value in expected.items():
        if options.get(name, value) != value:
            raise ConfigError(
                f"the option {name} is {options[name]!r} in the release's configuration, and "
                f"{value!r} in the model that is built here; give the configuration that "
                "belongs to the checkpoint"
            )
