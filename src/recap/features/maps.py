"""From what a backbone gives to feature maps, and numbers that bring their channels to one scale."""

from __future__ import annotations

import math

import numpy as np
from torch import Tensor, nn

from recap.core.errors import ConfigError


def as_maps(found: Tensor, *, model: nn.Module, backbone: str) -> Tensor:
    """Return what timm's ``forward_features`` gave as maps [B, C, H, W].

    Tokens [B, prefix + H * W, C] lose their prefix (class and register tokens); maps [B, H, W, C] are turned.

    Raises:
        ConfigError: the tokens are not those of a square picture.
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


def channel_scale(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and factor of each channel, float32 [C], such that (values - mean) * factor has standard deviation 1.

    Args:
        values: [images, cells, C]. A channel that never moves gets factor 0, not amplified rounding.
    """
    mean, sd = values.mean((0, 1), dtype=np.float64), values.std((0, 1), dtype=np.float64)
    moves = sd > 1e-6 * np.abs(mean)
    factor = np.divide(1.0, sd, out=np.zeros_like(sd), where=moves & (sd > 0))
    return mean.astype(np.float32), factor.astype(np.float32)
