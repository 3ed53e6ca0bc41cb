"""Settings of ACF's figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field, PositiveInt

from recap.settings.figures import FIGURES, ModelFigure, ShownImages, Split


@FIGURES.register
class ClustersFigure(ShownImages):
    """The clusters of patches and words in each layer, and their trees (Figure 5)."""

    implementation: ClassVar[str] = "recap.papers.acf.figures:draw_clusters"
    files: ClassVar[Mapping[str, str]] = {"clusters.png": "clusters", "clusters.json": ""}
    caption: ClassVar[str] = (
        "Which patches and which words each layer clusters, for captions of the first seed: patches and words of one "
        "cluster have one color, and the trees show how clusters grow. The JSON beside it has the clusters as text."
    )

    kind: Literal["clusters"]
    layers: list[PositiveInt] | None = Field(None, description="numbers of the layers, counted from 1 (default: all)")
    threshold: float = Field(0.5, gt=0, le=1, description="value of C from which neighbors are one cluster")
    untrained: bool = Field(False, description="beside each model itself with random weights: what was not learned")


@FIGURES.register
class AlignmentFigure(ModelFigure):
    """How well the words and the patches of a split find each other (section 4.1)."""

    implementation: ClassVar[str] = "recap.papers.acf.alignment:score_alignment"
    files: ClassVar[Mapping[str, str]] = {"alignment.json": "alignment of words and patches"}
    caption: ClassVar[str] = (
        "How many words and patches are each other's best, and that number over the largest that is possible "
        "(``mutual_argmax``), for captions of the first seed; ``late_interaction`` is the score of the released code."
    )
    needs_images: ClassVar[bool] = False

    kind: Literal["alignment"]
    split: Split = Field("test", description="images")
    beam: PositiveInt = Field(3, description="beam size of the search")
