"""Adaptive clusters along a line (Eq. 3-4 of Ada-ClustFormer)."""

from __future__ import annotations

import torch
from torch import Tensor

from recap.nn.rows import Rows
from recap.papers.acf.cluster_matrix import block_means, chain, line_blocks, repeat_blocks, step_scores
from recap.papers.acf.clusters import AdaptiveClusters, Carried, TokenByToken, TokenClusters


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
