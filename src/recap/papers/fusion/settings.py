"""Settings of the Fusion Transformer and of its baseline on two joined streams."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal, Self

from pydantic import Field

from recap.papers.transformer.settings import TransformerSizes
from recap.settings.base import Layers, Probability, Width, WidthOr0, reject_if
from recap.settings.models import MODELS, WithHeads


@MODELS.register
class FusionModel(WithHeads):
    """Transformer on a grid and on regions or segments,
    with relative directions, fusion attention and fusion gate."""

    implementation: ClassVar[str] = "recap.papers.fusion.model:Fusion"
    example_streams: ClassVar[Mapping[str, int]] = {"grid": 7, "region": 5}

    kind: Literal["fusion"]
    d_model: Width = 512
    heads: Width = 8
    d_feed_forward: Width = 2048
    encoder_layers: Layers = Field(3, description="of each stream's encoder")
    decoder_layers: Layers = 3
    dropout: Probability = 0.1
    feature_dropout: Probability = Field(0.1, description="dropout after the projection of vectors")
    second_geometry: Literal["boxes", "cells"] = Field(
        "boxes",
        description=(
            "boxes: regions or segments with boxes; cells: another square grid (segmentation maps)"
        ),
    )
    directions_per_quadrant: WidthOr0 = Field(
        1, description="d of Eq. 6; 0: without direction (Table 3)"
    )
    direction: Literal["log_index", "learned"] = Field(
        "log_index", description="how a direction counts: Eq. 10, or a learned vector for each"
    )
    plus_one: bool = Field(
        False, description="add 1 to widths and heights of boxes, as DLCT's and ORT's code"
    )
    geometry_weights: Literal["stream", "layer"] = Field(
        "stream", description="whose W_G of Eq. 11 is"
    )
    position_site: Literal["before", "after"] = Field(
        "before",
        description=(
            "positions of Eq. 15 are added before the projections of Q and K, or after them"
        ),
    )
    cell_positions: Literal["index", "angle"] = Field(
        "index",
        description="Eq. 14 on rows and columns 0, 1, ..; or on fractions of 2 pi, as DLCT's code",
    )
    box_position_bias: bool = Field(True, description="of W_emb in Eq. 12; the formula has none")
    add_norm: Literal["attentions", "after_gate", "both", "none"] = Field(
        "attentions", description="where residual and norm stand in fusion attention"
    )
    gate_bias: bool = Field(False, description="of W_f in Eq. 20; the formula has none")
    decoder_positions: bool = Field(
        False, description="absolute positions on the decoder's keys of the image, too"
    )

    _quarters = reject_if(
        lambda model: model.d_model % 4,
        "positions of a grid need a d_model divisible by 4, not {d_model}",
    )

    @classmethod
    def example(cls) -> Self:
        """Two layers each side of width 16."""
        return cls(
            kind="fusion",
            d_model=16,
            heads=2,
            d_feed_forward=24,
            encoder_layers=2,
            decoder_layers=2,
        )

    @property
    def fixed_vectors(self) -> bool:
        """The side of the grid is read off the number of its vectors."""
        return True


@MODELS.register
class JoinedTransformerModel(TransformerSizes):
    """Transformer on the vectors of two streams, one after the other."""

    implementation: ClassVar[str] = "recap.papers.fusion.model:JoinedTransformer"
    example_streams: ClassVar[Mapping[str, int]] = {"grid": 7, "region": 5}

    kind: Literal["joined_transformer"]
    visual_positions: Literal["none"] = Field(
        "none", description="a second stream need not be a grid"
    )
