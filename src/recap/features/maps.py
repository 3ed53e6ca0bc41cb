"""From what a backbone gives to feature maps, and numbers that bring their channels to one scale."""

from __future__ import annotations

import base64
import json
import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from recap.core.errors import ConfigError


def as_maps(found: Tensor, *, model: nn.Module, backbone: str) -> Tensor:
    """Return what timm's ``forward_features`` gave as maps [B, C, H, W].

    Tokens [B, prefix + H * W, C] lose their prefix (class and register tokens); maps [B, H, W, C] are turned.
    """
    if found.ndim == 4:
        return found.permute(0, 3, 1, 2) if str(getattr(model, "output_fmt", "NCHW")) == "NHWC" else found
    tokens = found[:, getattr(model, "num_prefix_tokens", 0) :] if found.ndim == 3 else found
    side = math.isqrt(tokens.shape[1])
    if found.ndim != 3 or side * side != tokens.shape[1]:
        raise ConfigError(
            f"{backbone}: gives features of shape {list(found.shape)}, no square grid; use another backbone"
        )
    return tokens.transpose(1, 2).unflatten(2, (side, side))


@dataclass(frozen=True)
class ChannelScale:
    """Brings channels to one scale: (values - mean) * factor has mean 0 and standard deviation 1 over some pictures."""

    mean: Tensor  #: of each channel, float32 [C]
    factor: Tensor  #: one over the standard deviation of each channel, float32 [C]
    pictures: int  #: over how many

    @staticmethod
    def of(values: np.ndarray) -> ChannelScale:
        """Return the scale of values [pictures, cells, C]; a channel that never moves gets factor 0."""
        mean, sd = values.mean((0, 1), dtype=np.float64), values.std((0, 1), dtype=np.float64)
        moves = sd > 1e-6 * np.abs(mean)  # what moves less is rounding, which is not amplified
        factor = np.divide(1.0, sd, out=np.zeros_like(sd), where=moves & (sd > 0))
        return ChannelScale(torch.from_numpy(mean).float(), torch.from_numpy(factor).float(), len(values))

    @staticmethod
    def of_text(text: str) -> ChannelScale:
        """Return the scale that :meth:`text` wrote."""
        try:
            said = json.loads(text)
            mean, factor = (np.frombuffer(base64.b64decode(said[name]), "<f4") for name in ("mean", "factor"))
            return ChannelScale(torch.tensor(mean), torch.tensor(factor), int(said["pictures"]))
        except (KeyError, TypeError) as error:
            raise ValueError(f"no mean, factor and number of pictures of channels ({error})") from error

    def __call__(self, values: Tensor) -> Tensor:
        """Return values [..., C] on this scale."""
        return (values - self.mean) * self.factor

    def text(self) -> str:
        """Return all three as JSON, the channels' numbers as base64 of float32, lowest byte first."""
        mean, factor = (self._base64(numbers) for numbers in (self.mean, self.factor))
        return json.dumps({"pictures": self.pictures, "mean": mean, "factor": factor})

    @staticmethod
    def _base64(numbers: Tensor) -> str:
        return base64.b64encode(numbers.numpy().astype("<f4").tobytes()).decode()
