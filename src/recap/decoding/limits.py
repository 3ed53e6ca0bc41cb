"""What every decoding is told of its batch and its vocabulary."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class DecodingLimits:
    """The frame of a decoding.

    Attributes:
        images: B, images of the state that decoding starts from.
        max_length: tokens after which an unfinished caption is cut, the end token among them.
        bos, eos, pad: ids of the tokens that begin, end and pad a caption.
        device: where the tokens are.
    """

    images: int
    max_length: int
    bos: int
    eos: int
    pad: int
    device: torch.device
