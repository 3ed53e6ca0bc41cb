"""What every decoding is told of its batch and its vocabulary."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class DecodingBatch:
    """A batch before the first token.

    Attributes:
        images: B, images of the state that decoding starts from.
        bos, eos, pad: ids of the tokens that begin, end and pad a caption.
        device: where the tokens are.
    """

    images: int
    bos: int
    eos: int
    pad: int
    device: torch.device
