"""Settings of Ada-ClustFormer and of its figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field, PositiveInt

from recap.papers.transformer.settings import TransformerSizes
from recap.settings.base import LayersOr0, Width, reject_if
from recap.settings.figures import FIGURES, ModelFigure, ShownImages, Split
from recap.settings.models import MODELS


@MODELS.register
class AcfModel(TransformerSizes):
    """The Transformer with clustering matrices in the self-attention of encoder and decoder."""

    implementation: ClassVar[str] = "recap.papers.acf.model:Acf"

    kind: Literal["acf"]
    encoder_clustering: Literal["2d", "1d", "none"] = Field(
        "2d", description="1d: vectors as one line; none: classic"
    )
    decoder_clustering: Literal["1d", "none"] = "1d"
    reading: Literal["multiply", "renormalize", "double_softmax", "logit_scale"] = Field(
        "multiply",
        description=(
            "of Eq. 2: weights times C after the softmax (released code); see docs/papers/acf.md"
        ),
    )
    context: Literal["exclusive_mean", "inclusive_mean", "previous"] = Field(
        "exclusive_mean",
        description="what Eq. 4 compares an element with; released: inclusive_mean; APN: previous",
    )
    self_factor: bool = Field(
        False, description="the product of Eq. 3 begins at k = i (released code)"
    )
    stacking: Literal["clusters", "steps", "none"] = Field(
        "clusters",
        description="Eq. 6 on C, on the probabilities of Eq. 4 (released code), or left out",
    )
    window: int | None = Field(
        None, ge=0, description="clusters of this fixed distance in place of adaptive ones"
    )
    sampling_rate: PositiveInt = Field(
        2, description="edge of the blocks for which the encoder's C is computed"
    )
    box: Literal["bounding_box", "query_anchored"] = Field(
        "bounding_box",
        description="row and column of Eq. 8: of the box around both cells, or of the query",
    )
    share_directions: bool = Field(
        True, description="one linear map for rows and columns (released code)"
    )
    cluster_norm: bool = Field(True, description="a norm of its own before Eq. 4 (released code)")
    layout: Literal["grid", "regions"] = Field(
        "grid", description="regions: laid out as a grid by their boxes"
    )
    region_rows: Width = Field(6, description="rows of that grid")
    plain_encoder_layers: LayersOr0 = Field(
        0, description="encoder layers without clusters, below the others"
    )

    _fixed_cells = reject_if(
        lambda model: model.layout == "regions" and model.visual_positions == "grid",
        "grid positions go with layout grid: regions have no fixed cells",
    )
    _boxes_are_read = reject_if(
        lambda model: model.layout == "regions" and model.encoder_clustering != "2d",
        "layout regions goes with encoder_clustering 2d; nothing else reads the boxes",
    )
    _some_layers_cluster = reject_if(
        lambda model: (
            model.encoder_clustering != "none"
            and model.plain_encoder_layers >= model.encoder_layers
        ),
        "{encoder_layers} layers leave none for clusters; lower plain_encoder_layers",
    )

    @property
    def grid_rows(self) -> int | None:
        """The rows of the grid that the encoder's clusters are in; None: it is square."""
        return self.region_rows if self.layout == "regions" else None

    @property
    def fixed_vectors(self) -> bool:
        """A grid's sides are read off the number of vectors."""
        return self.layout == "grid" and (self.encoder_clustering == "2d" or super().fixed_vectors)


@FIGURES.register
class ClustersFigure(ShownImages):
    """The clusters of patches and words in each layer, and their trees (Figure 5)."""

    implementation: ClassVar[str] = "recap.papers.acf.figures:draw_clusters"
    files: ClassVar[Mapping[str, str]] = {"clusters.png": "clusters", "clusters.json": ""}
    caption: ClassVar[str] = (
        "Which patches and which words each layer clusters, for captions of the first seed: "
        "patches and words of one cluster have one color, and the trees show how clusters grow. "
        "The JSON beside it has the clusters as text."
    )

    kind: Literal["clusters"]
    layers: list[PositiveInt] | None = Field(
        None, description="numbers of the layers, counted from 1 (default: all)"
    )
    threshold: float = Field(
        0.5, gt=0, le=1, description="value of C from which neighbors are one cluster"
    )
    untrained: bool = Field(
        False, description="beside each model itself with random weights: what was not learned"
    )


@FIGURES.register
class AlignmentFigure(ModelFigure):
    """How well the words and the patches of a split find each other (section 4.1)."""

    implementation: ClassVar[str] = "recap.papers.acf.figures:score_alignment"
    files: ClassVar[Mapping[str, str]] = {"alignment.json": "alignment of words and patches"}
    caption: ClassVar[str] = (
        "How many words and patches are each other's best, and that number over the largest that "
        "is possible (``mutual_argmax``), for captions of the first seed; ``late_interaction`` is "
        "the score of the released code."
    )
    needs_images: ClassVar[bool] = False

    kind: Literal["alignment"]
    split: Split = Field("test", description="images")
    beam: PositiveInt = Field(3, description="beam size of the search")
