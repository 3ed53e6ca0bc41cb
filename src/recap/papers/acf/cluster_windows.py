"""Clusters of a fixed size in place of adaptive ones (FS@2 of Ada-ClustFormer)."""

from __future__ import annotations

import torch
from torch import Tensor

from recap.nn.masks import MASKED_SCORE
from recap.nn.rows import Rows
from recap.papers.acf.cluster_matrix import distances
from recap.papers.acf.clusters import Carried, Clusters, TokenByToken, TokenClusters, grid_size


class LineWindow(TokenByToken):
    """C = 1 up to a distance of `window` elements, and 0 beyond."""

    def __init__(self, *, window: int) -> None:
        super().__init__()
        self.window = window

    def forward(self, x: Rows, before: Carried) -> tuple[Tensor, Carried]:
        """As `Clusters.forward`; nothing is stacked."""
        return _log_window(distances(x.shape[2], x.values.device).abs(), self.window, x.values)[None, None], ()

    def empty(self, like: Tensor) -> TokenClusters:
        """As `TokenByToken.empty`."""
        zeros = like.new_zeros(len(like), 1, 1)
        return TokenClusters(zeros, zeros[..., :0])

    def step(self, x: Rows, past: TokenClusters, before: Carried) -> tuple[Tensor, Carried, TokenClusters]:
        """As `TokenByToken.step`."""
        images, captions, length = past.log_row.shape
        distance = torch.arange(length, -1, -1, device=x.values.device)
        row = _log_window(distance, self.window, x.values).expand(images, captions, -1)
        return row, (), past._replace(log_row=row)


class GridWindow(Clusters):
    """C = 1 for cells at most `window` rows and columns from each other, and 0 beyond."""

    def __init__(self, *, window: int, height: int | None) -> None:
        super().__init__()
        self.window, self.height = window, height

    def forward(self, x: Rows, before: Carried) -> tuple[Tensor, Carried]:
        """As `Clusters.forward`; nothing is stacked."""
        height, width = grid_size(x.shape[2], self.height)
        down, across = (distances(n, x.values.device).abs() for n in (height, width))
        farthest = torch.maximum(down[:, None, :, None], across[None, :, None]).flatten(2).flatten(0, 1)
        return _log_window(farthest, self.window, x.values)[None, None], ()


def _log_window(distance: Tensor, window: int, like: Tensor) -> Tensor:
    """Return 0 within the window and a finite minus infinity beyond."""
    return torch.where(distance <= window, 0.0, MASKED_SCORE).to(torch.promote_types(like.dtype, torch.float32))
