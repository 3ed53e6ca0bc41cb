"""Where a layer of Ada-ClustFormer gets its clustering matrix: adaptive clusters of lines and grids (Eq. 3-8)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn

from recap.nn.layers import NORMS
from recap.nn.rows import Rows
from recap.papers.acf.cluster_matrix import (
    block_means,
    chain,
    distances,
    grid_blocks,
    grid_matrix,
    line_blocks,
    log_complement,
    merged,
    repeat_blocks,
    step_scores,
    sure,
)

Carried = tuple[Tensor, ...]  # what a layer hands to the next one for Eq. 6; empty without one


class TokenClusters(NamedTuple):
    """What one decoder layer knows of the tokens so far: 2 t + 1 numbers a beam."""

    prefix: Tensor  #: P_0 .. P_t, [B, C, t + 1].
    log_row: Tensor  #: log C_i,t-1 of each token i, [B, C, t]


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


class LineClusters(AdaptiveClusters, TokenByToken):
    """Clusters along a line, such as a caption or the cells of a grid in raster order.

    Args:
        rate: C is computed for blocks of so many elements, and each element gets that of its block; 1 for captions,
            whose tokens come one at a time.
        settings: as in `AdaptiveClusters`.
    """

    def __init__(self, *, d_model: int, norm: str, context: str, self_factor: bool, stacking: str, rate: int) -> None:
        super().__init__(d_model=d_model, norm=norm, context=context, self_factor=self_factor, stacking=stacking)
        self.rate = rate

    def forward(self, x: Rows, before: Carried) -> tuple[Tensor, Carried]:
        """As `Clusters.forward`."""
        length = x.shape[2]
        new, mean = block_means(self.projected(x), x.token_mask, self.rate, dims=(2,)).unbind(-1)
        log_p = self.steps_stacked(self.steps(new, mean), before[0] if before else None)
        log_c, carried = self.stacked(chain(log_p, self_factor=self.self_factor), (log_p,), before)
        if self.rate > 1:
            log_c = repeat_blocks(log_c, line_blocks(length, self.rate, log_c.device))
        return log_c, carried

    def empty(self, like: Tensor) -> TokenClusters:
        """As `TokenByToken.empty`."""
        zeros = like.new_zeros(len(like), 1, 1, dtype=torch.promote_types(like.dtype, self.scores.weight.dtype))
        return TokenClusters(zeros, zeros[..., :0])

    def step(self, x: Rows, past: TokenClusters, before: Carried) -> tuple[Tensor, Carried, TokenClusters]:
        """As `TokenByToken.step`."""
        new, mean = self.projected(x).unbind(-1)  # [B, C, 1]
        prefix = torch.cat([past.prefix, past.prefix[..., -1:] + mean], -1)  # P_0 .. P_t+1
        log_p = self.steps_stacked(self._row_scores(new, prefix), before[0] if before else None)
        own = log_p[..., -1:] if self.self_factor else torch.zeros_like(new)
        chained = torch.cat([past.log_row + log_p[..., :-1], own], -1)
        row = torch.cat([chained[..., :-1], torch.zeros_like(new)], -1)  # the diagonal is 1
        log_c, carried = self.stacked(row, (log_p,), before)
        return log_c, carried, TokenClusters(prefix, chained)

    def _row_scores(self, new: Tensor, prefix: Tensor) -> Tensor:
        """Return the scores of Eq. 4 from each token i <= t to token t, [B, C, t + 1]."""
        last = prefix.shape[-1] - 2  # t
        if self.context == "previous":
            previous = prefix[..., last : last + 1] - prefix[..., last - 1 : last] if last else torch.zeros_like(new)
            return (new + previous).expand(*new.shape[:-1], last + 1)
        counts = torch.arange(last, -1, -1, device=new.device)[:, None] + self._own
        ends = prefix[..., last + self._own, None]
        return step_scores(new, ends=ends, starts=prefix[..., : last + 1], counts=counts)[..., 0]


class GridClusters(AdaptiveClusters):
    """Clusters of the cells of a grid in raster order (Eq. 7-8).

    Args:
        height: rows of the grid; None: it is square.
        box: see `recap.papers.acf.cluster_matrix.grid_matrix`.
        share_directions: whether rows and columns have one map.
        rate: edge of the blocks of cells for which C is computed.
        settings: as in `AdaptiveClusters`.
    """

    def __init__(
        self,
        *,
        d_model: int,
        norm: str,
        context: str,
        self_factor: bool,
        stacking: str,
        rate: int,
        height: int | None,
        box: str,
        share_directions: bool,
    ) -> None:
        maps = 1 if share_directions else 2
        super().__init__(
            d_model=d_model, norm=norm, context=context, self_factor=self_factor, stacking=stacking, maps=maps
        )
        self.rate, self.height, self.box = rate, height, box

    def forward(self, x: Rows, before: Carried) -> tuple[Tensor, Carried]:
        """As `Clusters.forward`, for rows of [B, 1, H W, D]."""
        size = grid_size(x.shape[2], self.height)
        mask = None if x.token_mask is None else x.token_mask[:, 0].unflatten(1, size)
        cells = block_means(self.projected(x)[:, 0].unflatten(1, size), mask, self.rate, dims=(1, 2))  # [B, H, W, 2 M]
        maps = self.scores.out_features
        rows = self.steps(cells[..., 0], cells[..., maps])  # [B, H, W, W]
        columns = self.steps(*(cells[..., index].mT for index in (maps - 1, 2 * maps - 1)))  # [B, W, H, H]
        both = before if self.stacking == "steps" and before else (None, None)
        log_p = tuple(self.steps_stacked(scores, below) for scores, below in zip((rows, columns), both, strict=True))
        chains = (chain(each, self_factor=self.self_factor) for each in log_p)
        log_c, carried = self.stacked(grid_matrix(*chains, box=self.box), log_p, before)
        if self.rate > 1:
            log_c = repeat_blocks(log_c, grid_blocks(*size, self.rate, log_c.device))
        return log_c[:, None], carried


def grid_size(cells: int, height: int | None) -> tuple[int, int]:
    """Return H and W of a grid of so many cells; without a height it is square."""
    rows = height or math.isqrt(cells)
    if rows == 0 or cells % rows or (height is None and rows * rows != cells):
        shape = "a square grid" if height is None else f"a grid of {height} rows"
        raise ValueError(f"2-D clustering needs the cells of {shape}, but an image has {cells} vectors")
    return rows, cells // rows
