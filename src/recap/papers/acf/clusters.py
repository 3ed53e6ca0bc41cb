"""Where a layer of Ada-ClustFormer gets its clustering matrix: the interface, and what adaptive clusters share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn

from recap.nn.residual import NORMS
from recap.nn.rows import Rows
from recap.papers.acf.cluster_matrix import distances, log_complement, merged, step_scores, sure

Carried = tuple[Tensor, ...]  # what a layer hands to the next one for Eq. 6; empty without one


class TokenClusters(NamedTuple):
    """What one decoder layer knows of the tokens so far: 2 t + 1 numbers a beam.

    Attributes:
        prefix: P_0 .. P_t, [B, C, t + 1].
        log_row: log C_i,t-1 of each token i, [B, C, t].
    """

    prefix: Tensor
    log_row: Tensor


class Clusters(nn.Module, ABC):
    """The interface: rows of the layer's input -> log C~ of all pairs."""

    @abstractmethod
    def forward(self, x: Rows, before: Carried) -> tuple[Tensor, Carried]:
        """Return log C~ [B, C or 1, N, N], and what the next layer takes as `before`."""


class TokenByToken(Clusters):
    """Clusters along a line, which a decoder also asks for one token at a time."""

    @abstractmethod
    def empty(self, like: Tensor) -> TokenClusters:
        """Return what is known before the first token of the images [B, ...]."""

    @abstractmethod
    def step(self, x: Rows, past: TokenClusters, before: Carried) -> tuple[Tensor, Carried, TokenClusters]:
        """Add one token per beam, in O(D + t).

        Args:
            x: its rows, [B, C, 1, D].
            past: the tokens before.
            before: of the same token, from the layer below.

        Returns:
            log C~ between it and each token so far [B, C, t + 1], what the next layer takes as `before`, and the new
            `past`.
        """


class AdaptiveClusters(Clusters):
    """What the clusters along a line and in a grid share: the linear map of Eq. 4 and the stacking rule of Eq. 6.

    Args:
        d_model: width D.
        norm: "biased" or "unbiased": a norm of the layer's input before the map; "none".
        context: what a new element s_k is compared with: "exclusive_mean" of s_i .. s_k-1 (Eq. 4), "inclusive_mean" of
            s_i .. s_k (the released code), or the "previous" element alone (the pairwise matrix of APN).
        self_factor: whether the product of Eq. 3 begins at k = i; the diagonal is 1 nevertheless.
        stacking: Eq. 6 on "clusters" C, on "steps" p (the released code), or "none".
        maps: 1, or 2 for a grid whose rows and columns have their own.
    """

    def __init__(
        self, *, d_model: int, norm: str, context: str, self_factor: bool, stacking: str, maps: int = 1
    ) -> None:
        super().__init__()
        self.norm = nn.Identity() if norm == "none" else NORMS[norm](d_model)
        self.scores = nn.Linear(2 * d_model, maps)  # of [s_k ; mean]
        nn.init.xavier_uniform_(self.scores.weight)
        self.context, self.self_factor, self.stacking = context, self_factor, stacking
        self._own = int(context == "inclusive_mean")  # whether an element counts in its mean

    def projected(self, x: Rows) -> Tensor:
        """Rows of [B, C, N, D] -> [B, C, N, 2 M]: w_new s + bias of each of M maps, then w_mean s of each.

        In at least float32, for means are differences of long sums.
        """
        new, mean = self.scores.weight.chunk(2, 1)
        with torch.autocast(x.values.device.type, enabled=False):
            values = self.norm(x.values.to(new.dtype))
            both = values @ torch.cat([new, mean]).T
            return x.like(both + torch.cat([self.scores.bias, torch.zeros_like(self.scores.bias)])).padded()

    def steps(self, new: Tensor, mean: Tensor) -> Tensor:
        """Return the scores of Eq. 4 from i to k, [..., N, N], of lines of projected elements [..., N] each."""
        length, own = new.shape[-1], self._own
        distance = distances(length, new.device)
        unused = sure(distance < (0 if self.self_factor else 1), new.dtype)
        if self.context == "previous":
            return (new + nn.functional.pad(mean, (1, 0))[..., :-1])[..., None, :] + unused
        prefix = nn.functional.pad(mean.cumsum(-1), (1, 0))  # [..., N + 1]: sums before each element, and of all
        ends, starts = prefix[..., own : length + own], prefix[..., :length]
        return step_scores(new, ends=ends, starts=starts, counts=distance + own, unused=unused)

    def steps_stacked(self, scores: Tensor, before: Tensor | None) -> Tensor:
        """Scores of Eq. 4 -> log p, to which Eq. 6 is applied if it is to be, with log p~ of the layer below."""
        log_p = nn.functional.logsigmoid(scores)
        if self.stacking != "steps" or before is None:
            return log_p
        return merged(log_p, nn.functional.logsigmoid(-scores), before)

    def stacked(self, log_c: Tensor, log_p: Carried, before: Carried) -> tuple[Tensor, Carried]:
        """log C, log p and what came from the layer below -> log C~, and what goes to the layer above."""
        if self.stacking == "clusters":
            log_c = merged(log_c, log_complement(log_c), before[0]) if before else log_c
            return log_c, (log_c,)
        return log_c, log_p if self.stacking == "steps" else ()
