"""Clustering matrices of Ada-ClustFormer (ACF, Eq. 3-8) as logarithms, in O(N D + N^2) time and O(N^2) memory.

    p_ik = sigmoid(w_new s_k + w_mean mean(s_i .. s_k-1) + bias)    i < k, Eq. 4
    C_ij = C_ji = prod_{k = i+1 .. j} p_ik,  C_ii = 1               Eq. 3

Eq. 4 is linear before its sigmoid, so two numbers for each element are enough: a_k = w_new s_k + bias, and
P_k = sum_{t < k} w_mean s_t, with which w_mean times the mean from i to k-1 is (P_k - P_i) / (k - i). No vector of a
pair is ever made.

A product of many small probabilities is 0 in float32 and its gradient is lost, so everything here is a logarithm:
log C_ij is a sum. Letters: N elements, i and j (or k) their numbers, U blocks of elements.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

_SURE = 1e4  # a score whose probability is exactly 1, and has no gradient
_LEAST = 1e-30  # a log C closer to 0 counts as this: then 1 - C is not 0, and its logarithm and gradient are finite


def step_scores(new: Tensor, ends: Tensor, starts: Tensor, counts: Tensor, unused: Tensor | None = None) -> Tensor:
    """Return the scores of Eq. 4 before their sigmoid, from each start i to each new element k.

    Args:
        new: a_k, [..., K].
        ends: prefix sum up to the last element of the mean, [..., K].
        starts: prefix sum P_i before element i, [..., I].
        counts: elements of each mean, [I, K]; where it is not positive, the mean is 0.
        unused: as `sure` returns it.

    Returns:
        [..., I, K].
    """
    shares = torch.where(counts > 0, counts.clamp(min=1).to(new.dtype).reciprocal(), 0.0)
    first = new[..., None, :] if unused is None else new[..., None, :] + unused
    return torch.addcmul(first, ends[..., None, :] + (-starts)[..., None], shares)


def sure(unused: Tensor, dtype: torch.dtype) -> Tensor:
    """Return what is added to scores [I, K] so that log p and its gradient are 0 where `unused` is True."""
    return torch.where(unused, _SURE, 0.0).to(dtype)


def distances(length: int, device: torch.device) -> Tensor:
    """Return k - i of elements i and k, [N, N]."""
    position = torch.arange(length, device=device)
    return position - position[:, None]


def chain(log_p: Tensor, *, self_factor: bool) -> Tensor:
    """Return log C of Eq. 3, symmetric, with a diagonal of 0.

    Args:
        log_p: log p_ik, [..., N, N], 0 where k is no factor: for k < i, and for k = i without `self_factor`.
        self_factor: whether the product begins at k = i, as Eq. 3 is printed; else at k = i + 1, as its text says.
    """
    upper = log_p.cumsum(-1)
    if self_factor:
        upper = upper.triu(1)
    return upper + upper.mT


def log_complement(log_c: Tensor) -> Tensor:
    """log C -> log(1 - C); finite also where C is 1."""
    return (-torch.expm1(log_c.clamp(max=-_LEAST))).log()


def merged(log_new: Tensor, log_not_new: Tensor, log_before: Tensor) -> Tensor:
    """Return the logarithm of Eq. 6, (1 - C) C~ + C, which never falls from layer to layer.

    `log_new` and `log_not_new` are log C and log(1 - C) of this layer, `log_before` is log C~ of the layer below.
    """
    return torch.logaddexp(log_before + log_not_new, log_new)


def grid_matrix(log_rows: Tensor, log_columns: Tensor, *, box: str) -> Tensor:
    """Return log C of the cells of a grid (Eq. 8): one chain along a row times one along a column.

    Args:
        log_rows: log C within each row, [B, H, W, W].
        log_columns: log C within each column, [B, W, H, H].
        box: "bounding_box": the chains of the top row and the left column of the box around both cells, so C is
            symmetric; "query_anchored": those of the row and column of the first cell.

    Returns:
        [B, H W, H W] of cells in raster order.
    """
    images, height, width, _ = log_rows.shape
    if box == "query_anchored":  # [B, x, i, y, j] of the cells (x, i) and (y, j)
        return (log_rows[:, :, :, None] + log_columns.transpose(1, 2)[..., None]).reshape(images, height * width, -1)
    rows, columns = (torch.arange(n, device=log_rows.device) for n in (height, width))
    top = torch.minimum(rows[:, None], rows).flatten()
    left = torch.minimum(columns[:, None], columns).flatten()
    along_rows = log_rows.index_select(1, top).unflatten(1, (height, height))  # [B, x, y, i, j]
    along_columns = log_columns.index_select(1, left).unflatten(1, (width, width))  # [B, i, j, x, y]
    whole = along_rows.permute(0, 1, 3, 2, 4) + along_columns.permute(0, 3, 1, 4, 2)  # [B, x, i, y, j]
    return whole.reshape(images, height * width, height * width)


def block_means(x: Tensor, mask: Tensor | None, rate: int, *, dims: tuple[int, ...]) -> Tensor:
    """Return the means of blocks of `rate` elements along each of some axes, over the elements that are there.

    Args:
        x: [B, ..., P] with one or two axes of elements.
        mask: as x without its last axis, True where an element is real; None: all are.
        rate: edge of a block; the last block of an axis may have fewer elements.
        dims: the axes of elements.
    """
    if rate == 1:
        return x
    real = torch.ones_like(x[..., :1]) if mask is None else mask[..., None].to(x.dtype)
    total = x * real
    for dim in dims:
        total, real = (_block_sums(part, dim, rate) for part in (total, real))
    return total / real.clamp(min=1)


def _block_sums(x: Tensor, dim: int, rate: int) -> Tensor:
    missing = -x.shape[dim] % rate
    after = [0, 0] * (x.dim() - 1 - dim) + [0, missing]
    return pad(x, after).unflatten(dim, (-1, rate)).sum(dim + 1)


def repeat_blocks(log_c: Tensor, blocks: Tensor) -> Tensor:
    """Give each pair of elements the value of their blocks: [..., U, U], block of each element [N] -> [..., N, N]."""
    return log_c.index_select(-2, blocks).index_select(-1, blocks)


def line_blocks(length: int, rate: int, device: torch.device) -> Tensor:
    """Return the block of each element of a line, [N]."""
    return torch.arange(length, device=device) // rate


def grid_blocks(height: int, width: int, rate: int, device: torch.device) -> Tensor:
    """Return the block of each cell of a grid in raster order, [H W]."""
    rows, columns = (line_blocks(n, rate, device) for n in (height, width))
    across = -(-width // rate)
    return (rows[:, None] * across + columns).flatten()
