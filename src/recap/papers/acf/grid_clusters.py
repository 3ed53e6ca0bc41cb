"""Adaptive clusters of the cells of a grid (Eq. 7-8 of Ada-ClustFormer)."""

from __future__ import annotations

import math

from torch import Tensor

from recap.nn.rows import Rows
from recap.papers.acf.cluster_matrix import block_means, chain, grid_blocks, grid_matrix, repeat_blocks
from recap.papers.acf.clusters import AdaptiveClusters, Carried


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
        """As `Clusters.forward`, for rows of [B, 1, H W, D].

        Raises:
            ValueError: the vectors are not the cells of a grid.
        """
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
    """Return H and W of a grid of so many cells; without a height it is square.

    Raises:
        ValueError: there is no such grid.
    """
    rows = height or math.isqrt(cells)
    if rows == 0 or cells % rows or (height is None and rows * rows != cells):
        shape = "a square grid" if height is None else f"a grid of {height} rows"
        raise ValueError(f"2-D clustering needs the cells of {shape}, but an image has {cells} vectors")
    return rows, cells // rows
