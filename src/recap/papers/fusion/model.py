"""Fusion Transformer: two streams of an image, encoded with relative directions and fused under the guidance of words.

Paper: Guo et al., "Fusion Transformer for Image Captioning"; no code was released, so this is what its equations say
(numbers in brackets), completed where they are silent by the papers that it follows, DLCT and ORT:

    two encoders, of the grid and of regions     modified self-attention (15-17): absolute positions on queries and keys
                                                 (12-14), a bias of geometry and direction (6-11)
    decoder                                      causal self-attention; language guidance (18), fusion attention (19)
                                                 and gate (20-21); feed-forward

Each reading that the paper leaves open is an option, and its default is said in docs/papers/fusion.md. Its
second stream may also be segments of a panoptic model ("segmentation + grid"), which the paper names in one row and
does not describe.
Departs: nothing known. Embedding of vectors: linear, ReLU, dropout 0.1, norm; post-norm; words as in `Transformer`.
Expected: 55.2 M parameters with 2048-d grid and regions, D 512, 3+3 layers, COCO's 9,487 words + <unk>; the paper
prints none.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from torch import Tensor, nn

from recap.core.errors import ConfigError
from recap.models.cache import KeyValueCache
from recap.models.images import Images, InputSpec, Stream
from recap.models.state import Memory
from recap.models.transformer import TransformerDecoder, own_mask
from recap.nn.layers import FeedForward, Residual
from recap.nn.masks import key_mask, needed
from recap.nn.rows import Rows
from recap.papers.fusion.fusion_attention import FusionAttention, Masks
from recap.papers.fusion.layers import (
    BoxGeometry,
    CellGeometry,
    FusionDecoderLayer,
    FusionMemory,
    PositionedEncoderLayer,
    StreamEncoder,
)
from recap.papers.fusion.positioned import PositionedAttention
from recap.papers.fusion.relative_spatial import RelativeSpatialEncoding
from recap.papers.fusion.settings import FusionModel

GRID = "grid"
SECOND = ("region", "segment")


class Fusion(TransformerDecoder[FusionMemory]):
    """The Fusion Transformer."""

    def __init__(self, inputs: InputSpec, settings: FusionModel) -> None:
        super().__init__(fusion_masks)
        d_model, heads, dropout = settings.d_model, settings.heads, settings.dropout
        residual = partial(Residual, d_model=d_model, norm="post", norm_kind="biased", dropout=dropout)
        feed_forward = partial(
            FeedForward, d_model=d_model, d_hidden=settings.d_feed_forward, activation="relu", dropout=dropout
        )
        spatial = partial(
            RelativeSpatialEncoding,
            heads=heads,
            per_quadrant=settings.directions_per_quadrant,
            direction=settings.direction,
            plus_one=settings.plus_one,
        )

        def encoder(stream: str, geometry: BoxGeometry | CellGeometry) -> StreamEncoder:
            return StreamEncoder(
                inputs.sizes[stream],
                d_model=d_model,
                dropout=settings.feature_dropout,
                geometry=geometry,
                spatial=spatial,
                encodings=settings.encoder_layers if settings.geometry_weights == "layer" else 1,
                layers=[
                    PositionedEncoderLayer(
                        attention=PositionedAttention(d_model=d_model, heads=heads, site=settings.position_site),
                        feed_forward=feed_forward(),
                        residual=residual,
                    )
                    for _ in range(settings.encoder_layers)
                ],
            )

        cells = partial(CellGeometry, d_model=d_model, form=settings.cell_positions)
        boxes = settings.second_geometry == "boxes"
        _, self.second_stream = self.reads(inputs)
        self.decoder_positions = settings.decoder_positions
        self.reads_boxes = (self.second_stream,) if boxes else ()
        self.grid_encoder = encoder(GRID, cells())
        self.second_encoder = encoder(
            self.second_stream, BoxGeometry(d_model=d_model, bias=settings.box_position_bias) if boxes else cells()
        )
        self.build_decoder(
            vocabulary_size=inputs.vocabulary_size,
            d_model=d_model,
            dropout=dropout,
            layers=(
                FusionDecoderLayer(
                    attention=PositionedAttention(d_model=d_model, heads=heads),
                    fusion=FusionAttention(
                        d_model=d_model,
                        heads=heads,
                        gate_bias=settings.gate_bias,
                        residual=residual if settings.add_norm in ("attentions", "both") else None,
                    ),
                    feed_forward=feed_forward(),
                    residual=residual,
                    around_fusion=settings.add_norm in ("after_gate", "both"),
                )
                for _ in range(settings.decoder_layers)
            ),
            norm=nn.Identity(),
        )

    @classmethod
    def reads(cls, inputs: InputSpec) -> Sequence[str]:
        """Return the grid and the second stream."""
        second = [name for name in SECOND if name in inputs.sizes]
        if GRID not in inputs.sizes or len(second) != 1:
            raise ConfigError(
                f"the Fusion Transformer needs the stream {GRID} and one of {' and '.join(SECOND)}, not "
                f"{', '.join(inputs.sizes)}; name features of a grid, and features of regions or segments"
            )
        return GRID, second[0]

    def encode(self, images: Images) -> FusionMemory:
        """Images -> FusionMemory; vectors that a mask hides change nothing."""
        grid, second = images[GRID], images[self.second_stream]
        region, region_positions = self._encoded(self.second_encoder, second)
        cells, cell_positions = self._encoded(self.grid_encoder, grid)
        return FusionMemory(
            cells,
            grid.mask,
            Memory(region, second.mask),
            (region_positions, cell_positions) if self.decoder_positions else None,
        )

    def _encoded(self, encoder: StreamEncoder, stream: Stream) -> tuple[Tensor, Tensor]:
        """Return the encoded vectors of a stream and their positions, [B, N, D] each."""
        values, positions = encoder(stream, needed(key_mask(stream.mask)), self.run_layer)
        return values, positions.expand(len(stream), -1, -1)


def fusion_masks(x: Rows, memory: FusionMemory, cache: KeyValueCache | None) -> tuple[Tensor, Masks]:
    """Return the masks of the tokens and of both streams; see `recap.models.transformer.MakeMasks`."""
    streams = Masks(*(needed(key_mask(stream.mask)) for stream in (memory.second, memory)))
    return own_mask(x, cache), streams
