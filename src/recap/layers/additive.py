"""Additive attention (Xu et al. 2015; X-LAN paper, Eq. 1): a_i = w^T s(W_k k_i + W_q Q), softmax over i."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from recap.layers.attention import HIDDEN_SCORE
from recap.layers.fast.linear import Linear

ACTIVATIONS = {"tanh": torch.tanh, "relu": torch.relu}


class AdditiveAttention(nn.Module):
    """Conventional attention of a query over image vectors; only W_k has a bias.

    Args:
        d_query: width of the query.
        d_source: width F of the vectors attended to.
        d_hidden: width A of the sum.
        activation: s, tanh (paper) or relu.

    Attributes:
        weights: an identity that the attention passes through, [B, C, T, N]; see `recap.models.attention_maps`.

    Raises:
        ValueError: another activation.
    """

    def __init__(self, *, d_query: int, d_source: int, d_hidden: int, activation: str = "tanh") -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            raise ValueError(f"unknown activation {activation!r}; known are {[*ACTIVATIONS]}")
        self.activation = ACTIVATIONS[activation]
        self.key = Linear(d_source, d_hidden)
        self.query = Linear(d_query, d_hidden, bias=False)
        self.score = nn.Linear(d_hidden, 1, bias=False)
        self.weights = nn.Identity()

    def keys(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """Project what is attended to, once an image: [B, 1, N, F] -> keys [B, 1, N, A] and the source as values."""
        return self.key(source), source

    def forward(self, query: Tensor, keys: tuple[Tensor, Tensor], *, visible: Tensor) -> Tensor:
        """Attend: query [B, C, T, Q], keys [B, 1, N, A or F], visible as for [B, C, T, N] -> [B, C, T, F]."""
        k, v = keys
        joint = self.activation(k[..., None, :, :] + self.query(query)[..., None, :])  # [B, C, T, N, A]
        scores = self.score(joint)[..., 0].masked_fill(~visible, HIDDEN_SCORE)
        weights = self.weights(scores.softmax(-1))  # [B, C, T, N]
        rows = weights.to(v.dtype).flatten(1, 2) @ v[:, 0]  # captions are query rows: the image is not copied
        return rows.unflatten(1, weights.shape[1:3])
