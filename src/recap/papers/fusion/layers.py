"""The layers of the Fusion Transformer: an encoder for each stream of an image, and the decoder's layer."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from recap.core.errors import DataError
from recap.models.images import Stream
from recap.models.state import Memory
from recap.models.transformer import EncoderLayer, Past, TokenLayer
from recap.nn.fast import Dropout, Linear
from recap.nn.layers import Residual, Stack
from recap.nn.rows import Rows
from recap.papers.fusion.fusion_attention import FusionAttention, FusionKeyValues, Source
from recap.papers.fusion.positioned import BoxPositions, PositionedAttention, cell_positions
from recap.papers.fusion.relative_spatial import Boxes, RelativeSpatialEncoding, cell_boxes


class PositionedEncoderLayer(EncoderLayer):
    """The Transformer's encoder layer, with positions and a bias in its attention."""

    attention: PositionedAttention

    def forward(self, x: Rows, attn_mask: Tensor | None, attn_bias: Tensor, positions: Tensor) -> Rows:  # type: ignore[override]
        """Apply the layer; `attn_bias` is [B, 1, H, N, N], `positions` [B or 1, 1, N, D]."""
        return super().forward(x, attn_mask, attn_bias=attn_bias, positions=positions)

    def self_attend(self, x: Rows, attn_mask: Tensor | None, **others: Any) -> Rows:
        """Attend, with positions on the keys, too."""
        key_value = self.attention.key_value(x, others["positions"])
        return self.attention(x, key_value, attn_mask=attn_mask, **others)


class BoxGeometry(nn.Module):
    """Where the vectors of a stream are that comes with boxes, such as regions; arguments as of `BoxPositions`."""

    def __init__(self, *, d_model: int, bias: bool) -> None:
        super().__init__()
        self.positions = BoxPositions(d_model=d_model, bias=bias)

    def forward(self, stream: Stream) -> tuple[Boxes, Tensor]:
        """Return the boxes as fractions of the image, [B, 1, N, ...] in float64, and positions [B, 1, N, D]."""
        assert stream.boxes is not None and stream.sizes is not None, "the model asks for boxes"
        edges = stream.sizes.double().repeat(1, 2)[:, None]
        corners = (stream.boxes.double() / edges)[:, None]  # [B, 1, N, 4]
        return Boxes.of(corners), self.positions(corners.to(stream.values.dtype))


class CellGeometry(nn.Module):
    """Where the vectors of a stream are that are the cells of a square grid; `form` as of `cell_positions`."""

    def __init__(self, *, d_model: int, form: str) -> None:
        super().__init__()
        self.d_model, self.form = d_model, form

    def forward(self, stream: Stream) -> tuple[Boxes, Tensor]:
        """Return the boxes as fractions of the image, [1, 1, N, ...], and absolute positions [1, 1, N, D]."""
        values = stream.values
        side = math.isqrt(values.shape[1])
        if side * side != values.shape[1]:
            raise DataError(
                f"an image has {values.shape[1]} vectors in a stream that is read as the cells of a square grid; take "
                "features of a square grid, or `second_geometry: boxes` for regions"
            )
        boxes = Boxes.of(cell_boxes(side).to(values.device)[None, None])
        return boxes, cell_positions(side, self.d_model, form=self.form).to(values)[None, None]


class StreamEncoder(nn.Module):
    """Embeds and encodes one stream: linear, ReLU, dropout, norm; then layers of modified self-attention.

    Args:
        width: F of the stream.
        d_model, dropout: D, and the dropout after the projection.
        geometry: says where the vectors are.
        spatial: makes the relative spatial encoding.
        encodings: how many of these there are, 1 (shared by the layers) or as many as layers.
        layers: each with its own attention.
    """

    def __init__(
        self,
        width: int,
        *,
        d_model: int,
        dropout: float,
        geometry: BoxGeometry | CellGeometry,
        spatial: Callable[[], RelativeSpatialEncoding],
        encodings: int,
        layers: list[PositionedEncoderLayer],
    ) -> None:
        super().__init__()
        self.embedding = Linear(width, d_model)
        self.dropout = Dropout(dropout)
        self.norm = nn.LayerNorm(d_model)
        self.geometry = geometry
        self.spatial = Stack[RelativeSpatialEncoding](spatial() for _ in range(encodings))
        self.layers = Stack[PositionedEncoderLayer](layers)

    def forward(self, stream: Stream, attn_mask: Tensor | None, run_layer: Callable[..., Any]) -> tuple[Tensor, Tensor]:
        """Vectors [B, N, F] -> encoded [B, N, D] and their absolute positions [B or 1, N, D].

        Args:
            stream: the vectors, with boxes if its geometry is theirs.
            attn_mask: which vectors may be attended to, broadcastable to [B, 1, N, N]; None: all.
            run_layer: calls a layer with its inputs.
        """
        boxes, positions = self.geometry(stream)
        # A grid's bias is computed once for all images.
        biases = [spatial(boxes).expand(len(stream), -1, -1, -1, -1) for spatial in self.spatial]
        embedded = self.norm(self.dropout(torch.relu(self.embedding(stream.values))))
        rows = Rows(embedded[:, None])
        for index, layer in enumerate(self.layers):
            rows = run_layer(layer, rows, attn_mask, biases[index % len(biases)], positions)
        return rows.values[:, 0], positions[:, 0]


@dataclass(frozen=True)
class FusionMemory(Memory):
    """The encoded grid as `values` and `mask`, the encoded second stream, and positions for the decoder's keys."""

    second: Memory  #: regions or segments
    #: of the second stream and of the grid, [B, N, D] each; None if the decoder uses none
    positions: tuple[Tensor, Tensor] | None


class FusionDecoderLayer(TokenLayer):
    """Causal self-attention, fusion attention with its gate, feed-forward: rows of [B, C, T, D] -> the same shape.

    `residual` makes what stands around the first and the last sub-layer, and around the second with `around_fusion`.
    """

    def __init__(
        self,
        *,
        attention: PositionedAttention,
        fusion: FusionAttention,
        feed_forward: nn.Module,
        residual: Callable[[], Residual],
        around_fusion: bool,
    ) -> None:
        super().__init__()
        self.attention, self.fusion, self.feed_forward = attention, fusion, feed_forward
        self.around_attention, self.around_feed_forward = residual(), residual()
        self.around_fusion = residual() if around_fusion else None

    def image(self, memory: FusionMemory) -> FusionKeyValues:
        """Return keys and values of both streams."""
        second, grid = memory.positions or (None, None)
        return self.fusion.key_value(Source(memory.second.values, second), Source(memory.values, grid))

    def forward(self, x: Rows, image: Any, self_mask: Tensor | None, cross_mask: Any, past: Past | None = None) -> Rows:
        """As `TokenLayer.forward`, with `FusionKeyValues` and `Masks` of both streams."""

        def attend(y: Tensor) -> Tensor:
            rows = x.like(y)
            key_value = self.attention.key_value(rows)
            if past is not None:
                key_value = past.extend(key_value)
            return self.attention(rows, key_value, attn_mask=self_mask).values

        def fuse(y: Tensor) -> Tensor:
            return self.fusion(x.like(y), image, cross_mask).values

        y = self.around_attention(x.values, attend)
        y = fuse(y) if self.around_fusion is None else self.around_fusion(y, fuse)
        return x.like(self.around_feed_forward(y, self.feed_forward))
