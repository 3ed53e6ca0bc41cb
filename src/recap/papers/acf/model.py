"""Ada-ClustFormer (ACF): the Transformer whose self-attention
is weakened between elements of different clusters.

Paper: "Adaptively Clustering Neighbor Elements for Image Captioning", Eq. 1-8; code:
ZihuaEvan/ACFModel (no license), not opened here; docs/papers/acf.md says what it does instead of
the equations.

    A * C in the attention; C_ij: whether the elements from i to j are one cluster     (2)
    C_ij = C_ji = prod_{k = i+1 .. j} p_ik,  C_ii = 1                                  (3, 5)
    p_ik = sigmoid(w_new s_k + w_mean mean(s_i .. s_k-1) + bias)    i < k              (4)
    C~ = (1 - C) C~ of the layer below + C                                             (6)
    C of two cells of a grid: along their box's top row times along its left column    (7-8)

Eq. 4 is linear before its sigmoid, so two numbers for each element are enough: a_k = w_new s_k +
bias, and P_k = sum_{t < k} w_mean s_t, with which w_mean times the mean from i to k-1 is (P_k -
P_i) / (k - i). No vector of a pair is ever made: C takes O(N D + N^2) time and O(N^2) memory. A
product of many small probabilities is 0 in float32 and its gradient is lost, so everything here is
a logarithm: log C_ij is a sum.

Follows the equations where paper and code differ; `context: inclusive_mean`, `self_factor: true`,
`stacking: steps` are the code's one-dimensional path. C of a grid is that of the box around two
cells in all orientations, so symmetric. As the code, where the paper is silent or has two readings:
weights are multiplied by C after the softmax and not normalized again, norms come first, and a norm
of its own feeds Eq. 4. Departs from the code: the decoder is causal, where the code predicts each
word from a copy of the caption with a mask token; attention weights have no dropout.
Expected: 54.94 M parameters with 2048-d features, D 512, 6+6 layers, COCO's 9,487 words + <unk>.
Letters beside those of `recap.nn`: i and j (or k) are numbers of elements, U is a number of blocks
of elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid, pad

from recap.models.images import Images, InputSpec, square_side
from recap.models.state import Memory
from recap.models.transformer import DecoderLayer, EncoderLayer, LayerCache, attend_to_past
from recap.nn.attention import Attention, KeyValue, MultiHeadAttention
from recap.nn.layers import NORMS
from recap.nn.rows import (
    MASKED_SCORE,
    Rows,
    captions_to_queries,
    constant,
    keys_for_queries,
    mask_for_queries,
    queries_to_captions,
)
from recap.papers.acf.settings import AcfModel
from recap.papers.transformer.model import Transformer

SURE = 1e4  # a score whose probability is exactly 1, and has no gradient
# a log C closer to 0 counts as this: then 1 - C is not 0, and its logarithm and gradient are finite
LEAST_LOG = 1e-30
# a log C below this counts as this: C is 1e-35, and `exp` of less is 30 times as slow on a CPU
LEAST = -80.0


class ClusterAttention(MultiHeadAttention):
    """Eq. 2: attention of which C weakens what is in other clusters.

    With A = softmax(Q K^T / sqrt(K)) the weights are

    multiply        A * C, which sum to at most 1 (the released code, Tree-Transformer)
    renormalize     softmax(Q K^T / sqrt(K) + log C), which is A * C divided by its sum
    double_softmax  softmax(A * C): Eq. 2 to the letter, as Eq. 1 calls the softmax A;
                    nearly uniform
    logit_scale     softmax(Q K^T / sqrt(K) * C): A of Eq. 2 as the scores; C = 0 is a score of 0,
                    and hides nothing
    """

    def __init__(self, *, d_model: int, heads: int, reading: str) -> None:
        super().__init__(d_model=d_model, heads=heads)
        self.reading = reading

    def forward(
        self,
        query: Rows,
        key_value: KeyValue,
        *,
        attn_mask: Tensor | None = None,
        attn_bias: Tensor | None = None,
        log_clusters: Tensor | None = None,
    ) -> Rows:
        """As `MultiHeadAttention.forward`, under log C,
        broadcastable to [B, C, T, N], without a bias; None: C = 1."""
        if log_clusters is None:
            return super().forward(query, key_value, attn_mask=attn_mask, attn_bias=attn_bias)
        if self.reading == "renormalize":
            return super().forward(
                query, key_value, attn_mask=attn_mask, attn_bias=log_clusters[:, :, None]
            )
        q = query.map(self.query).split_heads(self.heads)  # [B, C, H, T, K]
        captions = q.shape[1]
        k, v, shared = keys_for_queries(key_value, captions)  # [B', H, N, K]
        # [B', 1, R or 1, N]
        mask = None if attn_mask is None else mask_for_queries(attn_mask, query.shape, shared)
        c = captions_to_queries(clusters(log_clusters)[:, :, None], shared)  # [B', 1, R, N]
        scores = (captions_to_queries(q, shared) * q.shape[-1] ** -0.5) @ k.mT  # [B', H, R, N]
        if self.reading == "logit_scale":
            weights = _softmax(scores * c, mask)
        else:
            weights = _softmax(scores, mask) * c
            weights = _softmax(weights, mask) if self.reading == "double_softmax" else weights
        attended = queries_to_captions(weights @ v, captions, shared)
        return query.merge_heads(attended).map(self.output)


def clusters(log_clusters: Tensor) -> Tensor:
    """log C -> C."""
    # a gradient 4 times as quick as that of `clamp`
    return nn.functional.threshold(log_clusters, LEAST, LEAST).exp()


def _softmax(scores: Tensor, mask: Tensor | None) -> Tensor:
    return torch.softmax(scores if mask is None else scores.masked_fill(~mask, MASKED_SCORE), -1)


def chain(log_p: Tensor, *, self_factor: bool) -> Tensor:
    """Eq. 3: log p_ik [..., N, N], 0 where k is no factor -> log C, symmetric, with a diagonal of
    0.

    No factors are k < i, and k = i unless the product begins there (`self_factor`: Eq. 3 as
    printed, against its text).
    """
    upper = log_p.cumsum(-1)
    if self_factor:
        upper = upper.triu(1)
    return upper + upper.mT


def step_scores(new: Tensor, *, ends: Tensor, starts: Tensor, shares: Tensor) -> Tensor:
    """Eq. 4 before its sigmoid: the scores from each start i to each new element k, [..., I, K].

    new: a_k, [..., I or 1, K]; starts: P_i, [..., I]; ends: the prefix sum up to the mean's last
    element, [..., K];
    shares: of an element in each mean, [I, K], as `shares_of` its number of elements.
    """
    return torch.addcmul(new, ends[..., None, :] + (-starts)[..., None], shares)


def shares_of(counts: Tensor, dtype: torch.dtype) -> Tensor:
    """Return 1 / counts; where a count is not positive, the mean is 0."""
    return torch.where(counts > 0, counts.clamp(min=1).to(dtype).reciprocal(), 0.0)


@constant
def pairs(
    length: int, own: int, self_factor: bool, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Return what Eq. 4 has for elements i and k whatever they are, [N, N]:
    a score of no factor, and the share."""
    distance = distances(length, device)
    no_factor = torch.where(distance < (0 if self_factor else 1), SURE, 0.0).to(dtype)
    return no_factor, shares_of(distance + own, dtype)


@constant
def line_blocks(length: int, rate: int, device: torch.device) -> Tensor:
    """Return the block of each element of a line, [N]."""
    return torch.arange(length, device=device) // rate


@constant
def grid_blocks(height: int, width: int, rate: int, device: torch.device) -> Tensor:
    """Return the block of each cell of a grid in raster order, [H W]."""
    down = torch.arange(height, device=device) // rate
    across = torch.arange(width, device=device) // rate
    return (down[:, None] * -(-width // rate) + across).flatten()


@constant
def lower_of_pairs(length: int, device: torch.device) -> Tensor:
    """Return the lower number of each pair of rows or columns, [N N]."""
    numbers = torch.arange(length, device=device)
    return torch.minimum(numbers[:, None], numbers).flatten()


def log_complement(log_c: Tensor) -> Tensor:
    """log C -> log(1 - C); finite also where C is 1."""
    return (-torch.expm1(log_c.clamp(max=-LEAST_LOG))).log()


def merged(log_new: Tensor, log_not_new: Tensor, log_before: Tensor) -> Tensor:
    """Eq. 6, which never falls with the layers, from log C, log(1 - C) and log C~ below."""
    return torch.logaddexp(log_before + log_not_new, log_new)


def grid_matrix(log_rows: Tensor, log_columns: Tensor, *, box: str) -> Tensor:
    """Eq. 8: log C within rows [B, H, W, W] and columns [B, W, H, H] ->
    of all cells, [B, H W, H W] in raster order.

    box "bounding_box": the chains of the top row and the left column of the box around both cells,
    so C is symmetric; "query_anchored": those of the row and column of the first cell.
    """
    images, height, width, _ = log_rows.shape
    if box == "query_anchored":  # [B, x, i, y, j] of the cells (x, i) and (y, j)
        return (log_rows[:, :, :, None] + log_columns.transpose(1, 2)[..., None]).reshape(
            images, height * width, -1
        )
    top = lower_of_pairs(height, log_rows.device)
    left = lower_of_pairs(width, log_rows.device)
    along_rows = log_rows.index_select(1, top).unflatten(1, (height, height))  # [B, x, y, i, j]
    # [B, i, j, x, y]
    along_columns = log_columns.index_select(1, left).unflatten(1, (width, width))
    # [B, x, i, y, j]
    whole = along_rows.permute(0, 1, 3, 2, 4) + along_columns.permute(0, 3, 1, 4, 2)
    return whole.reshape(images, height * width, height * width)


def block_means(x: Tensor, mask: Tensor | None, rate: int, *, dims: tuple[int, ...]) -> Tensor:
    """Down-sampling of Figure 3(b): means of blocks
    of `rate` elements along the axes `dims` of x [B, ..., P].

    The last block of an axis may be shorter; elements that the mask [B, ...] hides do not count.
    """
    if rate == 1:
        return x
    real = torch.ones_like(x[..., :1]) if mask is None else mask[..., None].to(x.dtype)
    total = x * real
    for dim in dims:
        # `pad` begins with the last axis
        after = [0, 0] * (x.dim() - 1 - dim) + [0, -x.shape[dim] % rate]
        total = pad(total, after).unflatten(dim, (-1, rate)).sum(dim + 1)
        real = pad(real, after).unflatten(dim, (-1, rate)).sum(dim + 1)
    return total / real.clamp(min=1)


def repeat_blocks(log_c: Tensor, blocks: Tensor) -> Tensor:
    """Up-sampling: C of blocks [..., U, U], each element's block [N] -> [..., N, N]."""
    return log_c.index_select(-2, blocks).index_select(-1, blocks)


def distances(length: int, device: torch.device) -> Tensor:
    """Return k - i of elements i and k, [N, N]."""
    position = torch.arange(length, device=device)
    return position - position[:, None]


def grid_size(cells: int, height: int | None) -> tuple[int, int]:
    """Return H and W of a grid of so many cells; without a height it is square."""
    rows = height or square_side(cells)
    return rows, cells // rows


# Where a layer gets its clustering matrix: `LineClusters` and `GridClusters` adapt to its input
# (Eq. 3-8), windows do not. A call takes rows of the input and what the layer below handed on for
# Eq. 6, and returns log C~ of all pairs, [B, C or 1, N, N], and what the next layer takes. A
# decoder also asks those of lines for one token at a time (`step`).
Carried = tuple[Tensor, ...]  # what a layer hands to the next one; empty without Eq. 6


class TokenClusters(NamedTuple):
    """What one decoder layer knows of the tokens so far: 2 t + 1 numbers a beam."""

    prefix: Tensor  #: P_0 .. P_t, [B, C, t + 1].
    log_row: Tensor  #: log C_i,t-1 of each token i, [B, C, t]

    @classmethod
    def empty(cls, like: Tensor) -> TokenClusters:
        """Return what is known before the first token of the images [B, ...]."""
        dtype = torch.promote_types(like.dtype, torch.float32)
        zeros = like.new_zeros(len(like), 1, 1, dtype=dtype)
        return cls(zeros, zeros[..., :0])


class AdaptiveClusters(nn.Module):
    """What the clusters along a line and in a grid share:
    the linear map of Eq. 4 and the stacking rule of Eq. 6.

    `context` of the settings is what a new element s_k is compared with: "exclusive_mean" of s_i ..
    s_k-1 (Eq. 4), "inclusive_mean" of s_i .. s_k, or the "previous" element alone (APN). `stacking`
    applies Eq. 6 to "clusters" C, to "steps" p, or is "none". M `maps` are 2 if rows and columns
    differ.
    """

    def __init__(self, settings: AcfModel, *, rate: int, maps: int = 1) -> None:
        super().__init__()
        d_model = settings.d_model
        norm = NORMS[settings.layer_norm] if settings.cluster_norm else nn.Identity
        self.norm = norm(d_model)
        self.scores = nn.Linear(2 * d_model, maps)  # of [s_k ; mean]
        nn.init.xavier_uniform_(self.scores.weight)
        self.context = settings.context
        self.self_factor = settings.self_factor
        self.stacking = settings.stacking
        self.rate = rate
        self.own = int(self.context == "inclusive_mean")  # whether an element counts in its mean

    def projected(self, x: Rows) -> Tensor:
        """Rows of [B, C, N, D] -> [B, C, N, 2 M]:
        w_new s + bias of each of M maps, then w_mean s of each.

        In at least float32, for means are differences of long sums.
        """
        new, mean = self.scores.weight.chunk(2, 1)
        with torch.autocast(x.values.device.type, enabled=False):
            values = self.norm(x.values.to(new.dtype))
            both = values @ torch.cat([new, mean]).T
            return x.like(
                both + torch.cat([self.scores.bias, torch.zeros_like(self.scores.bias)])
            ).padded()

    def steps(self, new: Tensor, mean: Tensor) -> Tensor:
        """Return the scores of Eq. 4 from i to k, [..., N, N], of projected lines [..., N]."""
        length, own = new.shape[-1], self.own
        no_factor, shares = pairs(length, own, self.self_factor, new.dtype, new.device)
        if self.context == "previous":
            return (new + pad(mean, (1, 0))[..., :-1])[..., None, :] + no_factor
        prefix = pad(mean.cumsum(-1), (1, 0))  # [..., N + 1]: sums before each element, and of all
        ends, starts = prefix[..., own : length + own], prefix[..., :length]
        return step_scores(new[..., None, :] + no_factor, ends=ends, starts=starts, shares=shares)

    def stacked_steps(self, scores: Sequence[Tensor], before: Carried) -> Carried:
        """Scores of Eq. 4 -> log p of each, to which Eq.
        6 is applied with those of the layer below if it is to be."""
        log_p = tuple(logsigmoid(each) for each in scores)
        if self.stacking != "steps" or not before:
            return log_p
        return tuple(
            merged(new, logsigmoid(-x), old)
            for new, x, old in zip(log_p, scores, before, strict=True)
        )

    def stacked(self, log_c: Tensor, log_p: Carried, before: Carried) -> tuple[Tensor, Carried]:
        """log C, log p and what came from below -> log C~, and what goes above."""
        if self.stacking == "clusters":
            log_c = merged(log_c, log_complement(log_c), before[0]) if before else log_c
            return log_c, (log_c,)
        return log_c, log_p if self.stacking == "steps" else ()


class LineClusters(AdaptiveClusters):
    """Clusters along a line: a caption (rate 1), or the cells
    of a grid in raster order, in blocks of `rate` cells."""

    def forward(self, x: Rows, before: Carried) -> tuple[Tensor, Carried]:
        """Eq. 3-6 of rows [B, C, N, D]."""
        new, mean = block_means(self.projected(x), x.token_mask, self.rate, dims=(2,)).unbind(-1)
        log_p = self.stacked_steps([self.steps(new, mean)], before)
        log_new = chain(log_p[0], self_factor=self.self_factor)
        log_c, layer_state = self.stacked(log_new, log_p, before)
        if self.rate > 1:
            log_c = repeat_blocks(log_c, line_blocks(x.shape[2], self.rate, log_c.device))
        return log_c, layer_state

    def step(
        self, x: Rows, past: TokenClusters, before: Carried
    ) -> tuple[Tensor, Carried, TokenClusters]:
        """Add one token per beam, rows of [B, C, 1, D], in O(D + t); `before` is of the same token.

        Returns log C~ between it and each token so far [B, C, t + 1], what the next layer takes,
        and the new `past`.
        """
        new, mean = self.projected(x).unbind(-1)  # [B, C, 1]
        prefix = torch.cat([past.prefix, past.prefix[..., -1:] + mean], -1)  # P_0 .. P_t+1
        log_p = self.stacked_steps([self._row_scores(new, prefix)], before)
        own = log_p[0][..., -1:] if self.self_factor else torch.zeros_like(new)
        chained = torch.cat([past.log_row + log_p[0][..., :-1], own], -1)  # Eq. 5
        row = torch.cat([chained[..., :-1], torch.zeros_like(new)], -1)  # the diagonal is 1
        log_c, layer_state = self.stacked(row, log_p, before)
        return log_c, layer_state, TokenClusters(prefix, chained)

    def _row_scores(self, new: Tensor, prefix: Tensor) -> Tensor:
        """Return the scores of Eq. 4 from each token i <= t to token t, [B, C, t + 1]."""
        last = prefix.shape[-1] - 2  # t
        if self.context == "previous":
            previous = pad(prefix, (1, 0)).diff()[..., last, None]  # 0 of the first token
            return (new + previous).expand(*new.shape[:-1], last + 1)
        counts = torch.arange(last, -1, -1, device=new.device)[:, None] + self.own
        ends = prefix[..., self.own - 2, None]
        shares = shares_of(counts, new.dtype)
        scores = step_scores(new[..., None, :], ends=ends, starts=prefix[..., :-1], shares=shares)
        return scores[..., 0]


class GridClusters(AdaptiveClusters):
    """Clusters of the cells of a grid, Eq. 7-8."""

    def __init__(self, settings: AcfModel) -> None:
        maps = 1 if settings.share_directions else 2
        super().__init__(settings, rate=settings.sampling_rate, maps=maps)
        self.height, self.box = settings.grid_rows, settings.box

    def forward(self, x: Rows, before: Carried) -> tuple[Tensor, Carried]:
        """Eq. 3-8 of rows [B, 1, H W, D]."""
        size = grid_size(x.shape[2], self.height)
        mask = None if x.token_mask is None else x.token_mask[:, 0].unflatten(1, size)
        numbers = self.projected(x)[:, 0].unflatten(1, size)
        cells = block_means(numbers, mask, self.rate, dims=(1, 2))  # [B, H, W, 2 M]
        new, mean = cells.chunk(2, -1)
        rows = self.steps(new[..., 0], mean[..., 0])  # [B, H, W, W]
        columns = self.steps(new[..., -1].mT, mean[..., -1].mT)  # [B, W, H, H]
        log_p = self.stacked_steps([rows, columns], before)
        log_rows = chain(log_p[0], self_factor=self.self_factor)
        log_columns = chain(log_p[1], self_factor=self.self_factor)
        log_new = grid_matrix(log_rows, log_columns, box=self.box)
        log_c, layer_state = self.stacked(log_new, log_p, before)
        if self.rate > 1:
            log_c = repeat_blocks(log_c, grid_blocks(*size, self.rate, log_c.device))
        return log_c[:, None], layer_state


class Window(nn.Module):
    """C = 1 up to a distance of `window` elements, along rows
    and columns of a grid, and 0 beyond: FS@2 of section 4.2.

    Nothing is stacked. `height` is that of the grid, 1 of a line; None: a square grid.
    """

    def __init__(self, *, window: int, height: int | None) -> None:
        super().__init__()
        self.window, self.height = window, height

    def forward(self, x: Rows, before: Carried) -> tuple[Tensor, Carried]:
        """As `LineClusters.forward` or `GridClusters.forward`."""
        height, width = grid_size(x.shape[2], self.height)
        down = distances(height, x.values.device).abs()
        across = distances(width, x.values.device).abs()
        farthest = torch.maximum(down[:, None, :, None], across[None, :, None])
        farthest = farthest.flatten(2).flatten(0, 1)
        return self._within(farthest, x.values)[None, None], ()

    def _within(self, distance: Tensor, like: Tensor) -> Tensor:
        """Return 0 within the window and a finite minus infinity beyond."""
        dtype = torch.promote_types(like.dtype, torch.float32)
        return torch.where(distance <= self.window, 0.0, MASKED_SCORE).to(dtype)

    def step(
        self, x: Rows, past: TokenClusters, before: Carried
    ) -> tuple[Tensor, Carried, TokenClusters]:
        """As `LineClusters.step`."""
        images, captions, length = past.log_row.shape
        distance = torch.arange(length, -1, -1, device=x.values.device)
        row = self._within(distance, x.values).expand(images, captions, -1)
        return row, (), past._replace(log_row=row)


def region_cells(boxes: Tensor, mask: Tensor, height: int) -> Tensor:
    """Lay regions out as a grid (section 3.1):
    the region in each cell, [B, H W] in raster order, N of a dummy's.

    Regions [B, N, 4] sorted by the horizontal center fill one column of `height` cells after the
    other; within a column they are sorted by the vertical center. Ties go by number. Below those of
    the last column are dummies.
    """
    images, regions, _ = boxes.shape
    # twice the centers
    across = boxes[..., 0] + boxes[..., 2]
    down = boxes[..., 1] + boxes[..., 3]
    order = across.masked_fill(~mask, torch.inf).argsort(stable=True)
    order = order.masked_fill(~mask.gather(1, order), regions)
    width = -(-regions // height)
    dummies = order.new_full((images, width * height - regions), regions)
    # ties go by number
    columns = torch.cat([order, dummies], 1).view(images, width, height).sort(-1).values
    padded = torch.cat([down, down.new_zeros(images, 1)], 1)
    below = padded.gather(1, columns.flatten(1)).view_as(columns)
    within = below.masked_fill(columns == regions, torch.inf).argsort(dim=-1, stable=True)
    return columns.gather(-1, within).transpose(1, 2).flatten(1)


def cell_of_region(cells: Tensor, regions: int) -> Tensor:
    """Return the cell of each region, [B, N], from the region of each cell [B, M].

    0 where a region has none.
    """
    places = torch.arange(cells.shape[1], device=cells.device).expand_as(cells)
    return cells.new_zeros(len(cells), regions + 1).scatter_(1, cells, places)[:, :regions]


class ClusterEncoderLayer(EncoderLayer):
    """The Transformer's encoder layer, whose self-attention is under a clustering matrix.

    `clusters` is given by its model; without it the layer is the Transformer's. Forward hooks on
    the identity `log_clusters` see log C~, [B or 1, C, N, N].
    """

    def __init__(self, **parts: Any) -> None:  # those of an `EncoderLayer`
        super().__init__(**parts)
        self.clusters: AdaptiveClusters | Window | None = None
        self.log_clusters = nn.Identity()

    def forward(  # type: ignore[override]
        self, x: Rows, attn_mask: Tensor | None, below: Carried = ()
    ) -> tuple[Rows, Carried]:
        """As `EncoderLayer.forward`; takes and returns what layers hand on for Eq. 6."""
        if self.clusters is None:
            return super().forward(x, attn_mask), ()
        log_clusters, layer_state = self.clusters(x, below)
        log_clusters = self.log_clusters(log_clusters)
        return super().forward(x, attn_mask, log_clusters=log_clusters), layer_state


class LayerClusters(NamedTuple):
    """What a decoder layer under clusters remembers."""

    above: Carried  #: what the layer above takes
    tokens: TokenClusters | None  #: of the tokens so far; None under teacher forcing


class ClusterDecoderLayer(DecoderLayer):
    """The Transformer's decoder layer, whose self-attention is under a clustering matrix.

    `clusters` and `log_clusters` are as of `ClusterEncoderLayer`, the latter under teacher forcing.
    """

    def __init__(self, **parts: Any) -> None:  # those of a `DecoderLayer`
        super().__init__(**parts)
        self.clusters: LineClusters | Window | None = None
        self.log_clusters = nn.Identity()

    def begin(self, like: Tensor) -> Any:
        """Return the clusters of no tokens."""
        return () if self.clusters is None else LayerClusters((), TokenClusters.empty(like))

    def forward(
        self,
        x: Rows,
        image: Any,
        self_mask: Tensor | None,
        cross_mask: Any,
        past: LayerCache | None = None,
        below: Any = (),
    ) -> tuple[Rows, Any]:
        """As `DecoderLayer.forward`."""
        if self.clusters is None:
            return super().forward(x, image, self_mask, cross_mask, past)
        before: Carried = below.above if below else ()
        if past is None:
            log_clusters, above = self.clusters(x, before)
            log_clusters = self.log_clusters(log_clusters)
            tokens = None
        else:
            row, above, tokens = self.clusters.step(x, past.layer_state.tokens, before)
            # Entries of the cache, from the tokens of each beam.
            entries = row.new_zeros(*row.shape[:2], past.cache.size)
            log_clusters = entries.scatter(2, past.cache.ancestry, row)[:, :, None]
        words = x.within(
            self.around_attention,
            lambda y: attend_to_past(self.attention, y, self_mask, past, log_clusters=log_clusters),
        )
        return self.after_words(words, image, cross_mask), LayerClusters(above, tokens)


def clusters_of(settings: AcfModel, kind: str, rate: int) -> nn.Module:
    """Return what clusters the input of one layer, "1d" or "2d"."""
    if settings.window is not None:
        return Window(window=settings.window, height=settings.grid_rows if kind == "2d" else 1)
    return GridClusters(settings) if kind == "2d" else LineClusters(settings, rate=rate)


class Acf(Transformer):
    """Transformer with clustering matrices in its encoder, its decoder, or both (section 3.2)."""

    def __init__(self, inputs: InputSpec, settings: AcfModel) -> None:
        kinds = {
            "encoder": settings.encoder_clustering,
            "decoder": settings.decoder_clustering,
            "cross": "none",
        }

        def attention(place: str) -> Attention:
            if kinds[place] == "none":
                return MultiHeadAttention(d_model=settings.d_model, heads=settings.heads)
            return ClusterAttention(
                d_model=settings.d_model, heads=settings.heads, reading=settings.reading
            )

        super().__init__(
            inputs,
            settings,
            make_attention=attention,
            make_encoder_layer=ClusterEncoderLayer,
            make_decoder_layer=ClusterDecoderLayer,
        )
        self.region_rows = settings.grid_rows
        self.reads_boxes = [inputs.main] if self.region_rows else ()
        # Clusters draw their weights after those of the Transformer.
        if kinds["encoder"] != "none":
            for layer in self.encoder[settings.plain_encoder_layers :]:
                layer.clusters = clusters_of(settings, kinds["encoder"], settings.sampling_rate)
        if kinds["decoder"] != "none":
            for layer in self.decoder:
                layer.clusters = clusters_of(settings, kinds["decoder"], 1)

    def run_encoder(self, x: Rows, attn_mask: Tensor | None) -> Rows:
        """As `Transformer.run_encoder`; each layer takes what the one below handed on for Eq. 6."""
        below: Carried = ()
        for layer in self.encoder:
            x, below = self.run_layer(layer, x, attn_mask, below)
        return x

    def encode(self, images: Images) -> Memory:
        """As `Transformer.encode`; regions are laid out by boxes and return in their order."""
        if self.region_rows is None:
            return super().encode(images)
        stream = images.main
        assert stream.boxes is not None, "the model asks for boxes"
        regions = stream.mask.shape[1]
        cells = region_cells(stream.boxes, stream.mask, self.region_rows)  # [B, M]
        real = cells < regions
        laid_out = _taken(stream.values, cells.clamp(max=regions - 1))
        laid_out = laid_out.masked_fill(~real[..., None], 0.0)
        memory = super().encode(Images.of(laid_out, real))
        return Memory(_taken(memory.values, cell_of_region(cells, regions)), stream.mask)

    def cluster_modules(self) -> dict[str, list[nn.Identity | None]]:
        """Return where log C~ passes in each layer of "encoder" and "decoder"; None: a layer has no
        clusters."""
        modules: dict[str, list[nn.Identity | None]] = {"encoder": [], "decoder": []}
        for place, stack in (("encoder", self.encoder), ("decoder", self.decoder)):
            for layer in stack:
                modules[place].append(None if layer.clusters is None else layer.log_clusters)
        return modules


def _taken(values: Tensor, index: Tensor) -> Tensor:
    """Values [B, N, D] and numbers [B, M] -> [B, M, D]."""
    return values.gather(1, index[..., None].expand(-1, -1, values.shape[-1]))
