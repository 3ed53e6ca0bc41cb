"""Fusion Transformer: two streams of an image,
encoded with relative directions and fused under the guidance of words.

Paper: Guo et al., "Fusion Transformer for Image Captioning"; no code was released. The file follows
the numbers of its equations: geometry and direction of boxes (6-11), absolute positions (12-14),
modified self-attention (15-17) in an encoder for each stream, language guidance (18), fusion
attention (19) and gate (20-21) in the decoder, then the model and its baseline "G + R". Eq. 1-5 are
the plain Transformer's (`recap.nn`). Where the paper is silent, the papers that it follows are
taken, DLCT and ORT (Herdade et al. 2019). Each reading that it leaves open is an option of the
settings, or a line of docs/papers/fusion.md. R is the second stream of an image: regions, or
segments of a panoptic model ("segmentation + grid"), which the paper names in one row and does not
describe.
Departs: nothing known. Embedding of vectors: linear, ReLU, dropout 0.1, norm; post-norm; words as
in `Transformer`.
Expected: 55.2 M parameters with 2048-d grid and regions, D 512, 3+3 layers, COCO's 9,487 words +
<unk>; the paper prints none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from recap.core.errors import ConfigError
from recap.models.images import Images, InputSpec, Stream, square_side
from recap.models.state import KeyValueCache, Memory
from recap.models.transformer import (
    EncoderLayer,
    LayerCache,
    TokenLayer,
    TransformerDecoder,
    attend_to_past,
    own_mask,
    post_norm_parts,
)
from recap.nn.attention import KeyValue, MultiHeadAttention
from recap.nn.fast import Linear
from recap.nn.layers import Dropout, Stack, grid_table
from recap.nn.rows import Rows, constant, key_mask, none_if_all_true
from recap.papers.fusion.settings import FusionModel, JoinedTransformerModel
from recap.papers.transformer.model import Transformer

# 3.2.1 Relative direction. A box has the center c = (x, y), the width w and
# the height h, fractions of the image. The first coordinate points right,
# the second down: with d = 1 the directions are right, down, left, up.

TIE = 1e-9  # cosines that differ by less are equally near: rounding would decide between them
SMALLEST_SIDE = 1e-6  # of a box that is a line or a point


@dataclass(frozen=True)
class Boxes:
    """Center [..., N, 2] and sides [..., N, 2] of boxes, first of width then of height."""

    centres: Tensor
    sides: Tensor

    @classmethod
    def of(cls, corners: Tensor) -> Boxes:
        """Left, top, right, bottom [..., N, 4] -> centers and sides."""
        low, high = corners[..., :2], corners[..., 2:]
        return cls((low + high) / 2, (high - low).clamp(min=SMALLEST_SIDE))


def cell_boxes(side: int) -> Tensor:
    """Return the boxes of a square grid's cells in raster order,
    float64 [side * side, 4], fractions of the image."""
    low = torch.arange(side, dtype=torch.float64) / side
    top, left = torch.meshgrid(low, low, indexing="ij")
    corner = torch.stack([left, top], -1).flatten(0, 1)
    return torch.cat([corner, corner + 1 / side], -1)


@constant
def direction_vectors(per_quadrant: int, device: torch.device) -> Tensor:
    """Eq. 6: u_i = (cos(i pi / 2d), sin(i pi / 2d)), i = 0 .. 4d - 1; float64 [4 d, 2]."""
    angles = torch.arange(4 * per_quadrant, dtype=torch.float64) * (math.pi / (2 * per_quadrant))
    return torch.stack([angles.cos(), angles.sin()], -1).to(device)


def direction_index(centres: Tensor, per_quadrant: int) -> Tensor:
    """Eq. 7-8: the direction that leads from box n to box m; centers [..., N, 2] -> int64 [..., N,
    N].

    v_mn = (c_m - c_n) / |c_m - c_n|,   s_mn = arg max_i v_mn . u_i
    """
    centres = centres.double()
    v = centres[..., :, None, :] - centres[..., None, :, :]  # [..., N, N, 2]
    v = v / v.norm(dim=-1, keepdim=True).clamp(min=torch.finfo(torch.float64).tiny)
    cosines = v @ direction_vectors(per_quadrant, v.device).T  # [..., N, N, 4 d]
    # Of equally near directions, as 15 of 100 pairs of cells in a 7 x 7 grid have, the lowest index
    # is taken; boxes of one center have no direction, and their index is 0.
    near = cosines >= cosines.amax(-1, keepdim=True) - TIE
    numbers = torch.arange(4 * per_quadrant, device=v.device)
    return numbers.where(near, 4 * per_quadrant).amin(-1)


# 3.2.2 Relative spatial encoding

# of centers, in widths and heights of the query's box: Eq. 9 would have log 0
SMALLEST_DISTANCE = 1e-3
SMALLEST_GATE = 1e-6  # Eq. 15 would have the log of what the ReLU of Eq. 11 made 0
RATES, WAVELENGTH, SCALE = 8, 1000.0, 100.0  # of Emb in Eq. 11


def relative_geometry(boxes: Boxes, *, plus_one: bool = False) -> Tensor:
    """Eq. 9: Omega of box m (the query) towards box n (the key), [..., N, N, 4].

    Omega(m, n) = (log(|x_m - x_n| / w_m), log(|y_m - y_n| / h_m), log(w_n / w_m), log(h_n / h_m))

    ORT's and DLCT's code adds 1 to widths and heights (`plus_one`), though its boxes are fractions,
    and has the inverse ratio of sizes.
    """
    sides = boxes.sides + 1 if plus_one else boxes.sides
    query, key = sides[..., :, None, :], sides[..., None, :, :]
    apart = (boxes.centres[..., :, None, :] - boxes.centres[..., None, :, :]).abs()
    distance = (apart / query).clamp(min=SMALLEST_DISTANCE)
    return torch.cat([distance, (key / query).expand_as(apart)], -1).log()


def sinusoidal_embedding(numbers: Tensor) -> Tensor:
    """Emb of Eq. 11: [..., F] -> [..., 16 F], sin(100 x / 1000^(t/8)),
    t = 0 .. 7, of each number, then the cosines."""
    powers = torch.arange(RATES, dtype=numbers.dtype, device=numbers.device) / RATES
    angles = (SCALE * numbers[..., None] / WAVELENGTH**powers).flatten(-2)
    return torch.cat([angles.sin(), angles.cos()], -1)


class RelativeSpatialEncoding(nn.Module):
    """Eq. 10-11 and the log of Eq. 15: the bias of an attention over boxes, one number for each
    head.

    Omega'(m, n) = (Omega(m, n), log s_mn),   Omega'(m, n) = ReLU(Emb(Omega') W_G)

    `per_quadrant` is d, 0 without direction. With `direction` "learned", each direction has a
    learned vector in place of log s_mn, and a further one stands for boxes of one center.
    """

    def __init__(self, *, heads: int, per_quadrant: int, direction: str, plus_one: bool) -> None:
        super().__init__()
        self.per_quadrant, self.plus_one = per_quadrant, plus_one
        learned = per_quadrant > 0 and direction == "learned"
        self.directions = nn.Embedding(4 * per_quadrant + 1, 2 * RATES) if learned else None
        # W_G, with a bias as in DLCT
        self.gate = Linear(2 * RATES * (5 if per_quadrant else 4), heads)

    def numbers(self, boxes: Boxes) -> Tensor:
        """Omega' of Eq. 10, [..., N, N, 5], or Omega of Eq. 9, no direction, [..., N, N, 4]."""
        omega = relative_geometry(boxes, plus_one=self.plus_one)
        if not self.per_quadrant or self.directions is not None:
            return omega
        index = direction_index(boxes.centres, self.per_quadrant)
        # s_mn counts from 1 here: log 0 of the first direction is no number.
        return torch.cat([omega, (index + 1).to(omega.dtype).log()[..., None]], -1)

    def embed(self, boxes: Boxes) -> Tensor:
        """Emb(Omega') of Eq. 11, [..., N, N, 80], 64 without direction."""
        embedded = sinusoidal_embedding(self.numbers(boxes).to(self.gate.weight.dtype))
        if self.directions is None:
            return embedded
        centres = boxes.centres
        # no direction leads from m to n
        same = (centres[..., :, None, :] == centres[..., None, :, :]).all(-1)
        index = direction_index(centres, self.per_quadrant).masked_fill(same, 4 * self.per_quadrant)
        return torch.cat([embedded, self.directions(index)], -1)

    def forward(self, boxes: Boxes) -> Tensor:
        """Return log Omega' of Eq. 15, [..., H, N, N], in the type of W_G:
        in bf16 it would be wrong by up to 8."""
        with torch.autocast(boxes.centres.device.type, enabled=False):
            gate = self.gate(self.embed(boxes)).relu()
            return gate.clamp(min=SMALLEST_GATE).log().movedim(-1, -3)


# 3.2.3 Absolute positions


class BoxPositions(nn.Module):
    """Eq. 12: RAPE = (left, top, right, bottom) W_emb, fractions of the image; DLCT adds a bias."""

    def __init__(self, *, d_model: int, bias: bool) -> None:
        super().__init__()
        self.embedding = Linear(4, d_model, bias=bias)

    def forward(self, boxes: Tensor) -> Tensor:
        """[..., N, 4] -> [..., N, D]."""
        return self.embedding(boxes)


def cell_positions(side: int, width: int, *, form: str) -> Tensor:
    """Eq. 13-14: GAPE = [PE_row ; PE_column] of a grid's cells
    in raster order, float64 [side * side, width].

    `form` "index" has rows and columns 0, 1, .. in Eq. 14; "angle", as DLCT's code, fractions of 2
    pi of 1, 2, ..
    """
    places = torch.arange(side, dtype=torch.float64)
    if form == "angle":
        places = (places + 1) / (side + 1e-6) * (2 * math.pi)
    return grid_table(places, width)


@constant
def cell_geometry(
    side: int, width: int, form: str, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Return corners [1, 1, N, 4] and positions [1, 1, N, D]
    of a grid's cells, made once and not in every step."""
    positions = cell_positions(side, width, form=form).to(device, dtype)
    return cell_boxes(side).to(device)[None, None], positions[None, None]


class BoxGeometry(nn.Module):
    """Where the vectors of a stream are that comes with boxes, such as regions."""

    def __init__(self, *, d_model: int, bias: bool) -> None:
        super().__init__()
        self.positions = BoxPositions(d_model=d_model, bias=bias)

    def forward(self, stream: Stream) -> tuple[Boxes, Tensor]:
        """Return the boxes as fractions of the image,
        [B, 1, N, ...] in float64, and positions [B, 1, N, D]."""
        assert stream.boxes is not None and stream.sizes is not None, "the model asks for boxes"
        edges = stream.sizes.double().repeat(1, 2)[:, None]
        corners = (stream.boxes.double() / edges)[:, None]  # [B, 1, N, 4]
        return Boxes.of(corners), self.positions(corners.to(stream.values.dtype))


class CellGeometry(nn.Module):
    """Where the vectors of a stream are that are the cells of a square grid.

    `form` as of `cell_positions`.
    """

    def __init__(self, *, d_model: int, form: str) -> None:
        super().__init__()
        self.d_model, self.form = d_model, form

    def forward(self, stream: Stream) -> tuple[Boxes, Tensor]:
        """Return the boxes as image fractions, [1, 1, N, ...], and positions [1, 1, N, D]."""
        values = stream.values
        side = square_side(values.shape[1])
        corners, positions = cell_geometry(
            side, self.d_model, self.form, values.dtype, values.device
        )
        return Boxes.of(corners), positions


# 3.3 Modified multi-head attention, and the encoder of a stream


class PositionedAttention(MultiHeadAttention):
    """Eq. 15-17, with positions [B or 1, 1, T or N, D] on queries
    and keys, not on values; None: Eq. 2-4.

    E' = (Q + APE_q)(K + APE_k)^T / sqrt(d_k) + log Omega',   head = softmax(E') V

    Positions are as wide as the model, a head's queries and keys are not: what Eq. 15 adds does not
    fit as printed. As in DLCT's code they are added `before` the projections; `after` divides them
    among the heads, and adds them to what was projected.
    """

    def __init__(self, *, d_model: int, heads: int, site: str = "before") -> None:
        super().__init__(d_model=d_model, heads=heads)
        self.site = site

    def key_value(self, source: Rows, positions: Tensor | None = None) -> KeyValue:
        """As `MultiHeadAttention.key_value`, with the positions of the source on its keys."""
        key = self._positioned(source, self.key, positions)
        return key.split_heads(self.heads), source.map(self.value).split_heads(self.heads)

    def forward(
        self,
        query: Rows,
        key_value: KeyValue,
        *,
        attn_mask: Tensor | None = None,
        attn_bias: Tensor | None = None,
        positions: Tensor | None = None,
    ) -> Rows:
        """As `MultiHeadAttention.forward`, with `positions` on the queries.

        Log Omega' is `attn_bias`.
        """
        q = self._positioned(query, self.query, positions).split_heads(self.heads)
        return query.merge_heads(self.attend(q, key_value, attn_mask, attn_bias)).map(self.output)

    def to_itself(  # type: ignore[override]
        self, x: Rows, attn_mask: Tensor | None, *, attn_bias: Tensor, positions: Tensor
    ) -> Rows:
        """Self-attention, with positions on queries and keys."""
        key_value = self.key_value(x, positions)
        return self(x, key_value, attn_mask=attn_mask, attn_bias=attn_bias, positions=positions)

    def _positioned(self, rows: Rows, projection: Linear, positions: Tensor | None) -> Rows:
        if positions is None:
            return rows.map(projection)
        if self.site == "before":
            return rows.map(lambda x: projection(x + positions))
        return rows.map(lambda x: projection(x) + positions)


class StreamEncoder(nn.Module):
    """Embeds and encodes one stream: linear, ReLU, dropout, norm;
    then layers of modified self-attention.

    `geometry` says where the vectors are; the layers share one relative spatial encoding, or have
    one each.
    """

    def __init__(
        self, width: int, geometry: BoxGeometry | CellGeometry, settings: FusionModel
    ) -> None:
        super().__init__()
        d_model, heads, count = settings.d_model, settings.heads, settings.encoder_layers
        residual, feed_forward = post_norm_parts(
            d_model=d_model, d_feed_forward=settings.d_feed_forward, dropout=settings.dropout
        )
        site = settings.position_site
        layers = [
            EncoderLayer(
                attention=PositionedAttention(d_model=d_model, heads=heads, site=site),
                feed_forward=feed_forward(),
                residual=residual,
            )
            for _ in range(count)
        ]
        self.embedding = Linear(width, d_model)
        self.dropout = Dropout(settings.feature_dropout)
        self.norm = nn.LayerNorm(d_model)
        self.geometry = geometry
        self.spatial = Stack[RelativeSpatialEncoding](
            RelativeSpatialEncoding(
                heads=heads,
                per_quadrant=settings.directions_per_quadrant,
                direction=settings.direction,
                plus_one=settings.plus_one,
            )
            for _ in range(count if settings.geometry_weights == "layer" else 1)
        )
        self.layers = Stack[EncoderLayer](layers)

    def forward(self, stream: Stream, run_layer: Callable[..., Any]) -> tuple[Tensor, Tensor]:
        """Vectors [B, N, F] -> encoded [B, N, D] and their absolute positions [B, 1, N, D]."""
        boxes, positions = self.geometry(stream)
        images = len(stream.values)
        # A grid's bias is computed once for all images.
        biases = [spatial(boxes).expand(images, -1, -1, -1, -1) for spatial in self.spatial]
        embedded = self.norm(self.dropout(torch.relu(self.embedding(stream.values))))
        rows = Rows(embedded[:, None])
        attn_mask = none_if_all_true(key_mask(stream.mask))
        for index, layer in enumerate(self.layers):
            bias = biases[index % len(biases)]
            rows = run_layer(layer, rows, attn_mask, attn_bias=bias, positions=positions)
        return rows.values[:, 0], positions.expand(images, -1, -1, -1)


# 3.4 Fusion attention and 3.5 fusion gate.
# a are the words after self-attention, R the second stream, G the grid.


class FusionKeyValues(NamedTuple):
    """Keys and values of both streams, for language guidance and for fusion attention."""

    guidance_second: KeyValue
    guidance_grid: KeyValue
    second: KeyValue
    grid: KeyValue


# of R and of G, broadcastable to [B, C, T, N]; None: all are attended to
Masks = tuple[Tensor | None, Tensor | None]


class Bare(nn.Module):
    """In place of a residual connection and its norm: nothing."""

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """Return f(x), [..., D] -> [..., D]."""
        return sublayer(x)


class FusionAttention(nn.Module):
    """Eq. 18-21.

    `residual` makes what is around each of the four attentions; `Bare` as Eq. 18-19 print it.

    The attentions have parameters of their own; the paper does not say whether they share any.
    """

    def __init__(
        self, *, d_model: int, heads: int, gate_bias: bool, residual: Callable[[], nn.Module]
    ) -> None:
        super().__init__()
        self.guidance_second = PositionedAttention(d_model=d_model, heads=heads)
        self.guidance_grid = PositionedAttention(d_model=d_model, heads=heads)
        self.second = PositionedAttention(d_model=d_model, heads=heads)
        self.grid = PositionedAttention(d_model=d_model, heads=heads)
        self.gate = FusionGate(d_model=d_model, bias=gate_bias)
        self.around = nn.ModuleDict({name: residual() for name in FusionKeyValues._fields})

    def key_value(
        self,
        second: Tensor,
        grid: Tensor,
        positions: tuple[Tensor | None, Tensor | None],
    ) -> FusionKeyValues:
        """Project both streams, [B, N, D] each, once per image.

        `positions` are those of their keys, [B, 1, N, D], or None.
        """
        of_r, of_g = positions
        return FusionKeyValues(
            self.guidance_second.key_value(Rows(second[:, None]), of_r),
            self.guidance_grid.key_value(Rows(grid[:, None]), of_g),
            self.second.key_value(Rows(second[:, None]), of_r),
            self.grid.key_value(Rows(grid[:, None]), of_g),
        )

    def forward(self, words: Rows, image: FusionKeyValues, masks: Masks) -> Rows:
        """Rows of [B, C, T, D], keys and values of the image, masks -> rows of [B, C, T, D]."""
        second_mask, grid_mask = masks
        # MHA(a, R, R) and MHA(a, G, G) (18)
        l_r = words.within(
            self.around["guidance_second"],
            lambda x: self.guidance_second(x, image.guidance_second, attn_mask=second_mask),
        )
        l_g = words.within(
            self.around["guidance_grid"],
            lambda x: self.guidance_grid(x, image.guidance_grid, attn_mask=grid_mask),
        )
        # MHA(l_r, G, G) and MHA(l_g, R, R) (19)
        g_t = l_r.within(
            self.around["grid"], lambda x: self.grid(x, image.grid, attn_mask=grid_mask)
        )
        r_t = l_g.within(
            self.around["second"], lambda x: self.second(x, image.second, attn_mask=second_mask)
        )
        # (20-21)
        return words.like(
            self.gate(words.values, (l_r.values, l_g.values), (r_t.values, g_t.values))
        )


class FusionGate(nn.Module):
    """Eq. 20-21; Eq. 20 has no bias of W_f.

    f = sigmoid(W_f [a ; l_r ; l_g]),   F = R_t * f + G_t * (1 - f)

    As printed, the gate reads the guidance, and opens for R_t, which the grid guided.
    """

    def __init__(self, *, d_model: int, bias: bool) -> None:
        super().__init__()
        self.gate = Linear(3 * d_model, d_model, bias=bias)

    def forward(
        self, words: Tensor, guidance: tuple[Tensor, Tensor], fused: tuple[Tensor, Tensor]
    ) -> Tensor:
        """Words a, guidance (l_r, l_g) and fused (R_t, G_t), each [..., D] -> F [..., D]."""
        gate = torch.sigmoid(self.gate(torch.cat([words, *guidance], -1)))
        second, grid = fused
        return second * gate + grid * (1 - gate)


@dataclass(frozen=True)
class FusionMemory(Memory):
    """The encoded grid (`values`, `mask`), the second stream, and positions for decoder keys."""

    second: Memory  #: regions or segments
    #: of the second stream and of the grid, [B, 1, N, D] each; None where the decoder uses none
    positions: tuple[Tensor | None, Tensor | None]


class FusionDecoderLayer(TokenLayer):
    """Causal self-attention, fusion attention with its gate,
    feed-forward: rows of [B, C, T, D] -> the same shape."""

    def __init__(self, settings: FusionModel) -> None:
        super().__init__()
        d_model, heads, add_norm = settings.d_model, settings.heads, settings.add_norm
        residual, feed_forward = post_norm_parts(
            d_model=d_model, d_feed_forward=settings.d_feed_forward, dropout=settings.dropout
        )
        self.attention = PositionedAttention(d_model=d_model, heads=heads)
        self.fusion = FusionAttention(
            d_model=d_model,
            heads=heads,
            gate_bias=settings.gate_bias,
            residual=residual if add_norm in ("attentions", "both") else Bare,
        )
        self.feed_forward = feed_forward()
        self.around_attention = residual()
        self.around_feed_forward = residual()
        self.around_fusion = residual() if add_norm in ("after_gate", "both") else Bare()

    def image(self, memory: FusionMemory) -> FusionKeyValues:
        """Return keys and values of both streams."""
        return self.fusion.key_value(memory.second.values, memory.values, memory.positions)

    def forward(
        self,
        x: Rows,
        image: Any,
        self_mask: Tensor | None,
        cross_mask: Any,
        past: LayerCache | None = None,
        below: Any = (),
    ) -> tuple[Rows, Any]:
        """As `TokenLayer.forward`, with `FusionKeyValues` and `Masks` of both streams."""

        words = x.within(
            self.around_attention, lambda y: attend_to_past(self.attention, y, self_mask, past)
        )
        y = words.within(self.around_fusion, lambda y: self.fusion(y, image, cross_mask))
        return y.like(self.around_feed_forward(y.values, self.feed_forward)), ()


# The model, and its baseline

GRID = "grid"
SECOND = ("region", "segment")


class Fusion(TransformerDecoder[FusionMemory]):
    """The Fusion Transformer."""

    def __init__(self, inputs: InputSpec, settings: FusionModel) -> None:
        super().__init__()
        d_model, sizes = settings.d_model, inputs.sizes
        boxes = settings.second_geometry == "boxes"
        _, self.second_stream = self.reads(inputs)
        self.decoder_positions = settings.decoder_positions
        self.reads_boxes = [self.second_stream] if boxes else ()
        cells = partial(CellGeometry, d_model=d_model, form=settings.cell_positions)
        self.grid_encoder = StreamEncoder(sizes[GRID], cells(), settings)
        second = BoxGeometry(d_model=d_model, bias=settings.box_position_bias) if boxes else cells()
        self.second_encoder = StreamEncoder(sizes[self.second_stream], second, settings)
        self.build_decoder(
            vocabulary_size=inputs.vocabulary_size,
            d_model=d_model,
            dropout=settings.dropout,
            layers=(FusionDecoderLayer(settings) for _ in range(settings.decoder_layers)),
            norm=nn.Identity(),
        )

    @classmethod
    def reads(cls, inputs: InputSpec) -> Sequence[str]:
        """Return the grid and the second stream."""
        second = [name for name in SECOND if name in inputs.sizes]
        if GRID not in inputs.sizes or len(second) != 1:
            raise ConfigError(
                f"the Fusion Transformer needs the stream {GRID} and one of "
                f"{' and '.join(SECOND)}, not {', '.join(inputs.sizes)}; name features of a grid, "
                "and features of regions or segments"
            )
        return GRID, second[0]

    def encode(self, images: Images) -> FusionMemory:
        """Images -> FusionMemory; vectors that a mask hides change nothing."""
        grid, second = images[GRID], images[self.second_stream]
        regions, region_positions = self.second_encoder(second, self.run_layer)
        cells, grid_positions = self.grid_encoder(grid, self.run_layer)
        positions = (region_positions, grid_positions) if self.decoder_positions else (None, None)
        return FusionMemory(cells, grid.mask, Memory(regions, second.mask), positions)

    def masks(
        self, x: Rows, memory: FusionMemory, cache: KeyValueCache | None
    ) -> tuple[Tensor, Masks]:
        """Return the masks of the tokens and of both streams."""
        return own_mask(x, cache), (
            none_if_all_true(key_mask(memory.second.mask)),
            none_if_all_true(key_mask(memory.mask)),
        )

    def attention_modules(self) -> list[nn.Identity]:
        """Return where the fusion attentions over the grid, G_t of Eq. 19, pass their weights."""
        return [layer.fusion.grid.weights for layer in self.layers]


class JoinedTransformer(Transformer):
    """The baseline "G + R" of Table 2:
    a Transformer on the vectors of two streams, one stream after the other.

    The paper says that grid and regions are concatenated. Each stream has a projection of its own,
    since they may have different widths. Expected: 33.9 M parameters with two streams of 2048-d
    features, D 512, 3+3 layers.
    """

    def __init__(self, inputs: InputSpec, settings: JoinedTransformerModel) -> None:
        super().__init__(inputs, settings)
        self.streams = self.reads(inputs)
        self.second_embedding = Linear(inputs.sizes[self.streams[1]], settings.d_model)
        nn.init.xavier_uniform_(self.second_embedding.weight)

    @classmethod
    def reads(cls, inputs: InputSpec) -> Sequence[str]:
        """Return both streams."""
        if len(inputs.sizes) != 2:
            raise ConfigError(
                f"joined_transformer needs two streams, not {', '.join(inputs.sizes)}"
            )
        return list(inputs.sizes)

    def embed_image(self, images: Images) -> tuple[Tensor, Tensor]:
        """Return the projected vectors of both streams, [B, N, D], and their mask [B, N]."""
        first = images[self.streams[0]]
        second = images[self.streams[1]]
        projected = self.feature_embedding(first.values), self.second_embedding(second.values)
        return torch.relu(torch.cat(projected, 1)), torch.cat([first.mask, second.mask], 1)
