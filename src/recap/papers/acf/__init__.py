"""Ada-ClustFormer (ACF): a Transformer whose self-attention clusters neighboring elements.

"Adaptively Clustering Neighbor Elements for Image Captioning". `model` has Eq. 2-8 and the regions
as a grid, `figures` Figure 5 and the measure of section 4.1.
"""

from recap.papers.acf.settings import AcfModel, AlignmentFigure, ClustersFigure
from recap.settings.models import EXPLAINED, RELEASED

__all__ = ["AcfModel", "AlignmentFigure", "ClustersFigure"]

NOT_IMPORTED = (
    "a released Ada-ClustFormer appends a mask word and lets earlier words see later ones, which "
    "no model here does; train the model acf_released, which has its equations on a causal decoder"
)
RELEASED.register("acf", "recap.papers.acf:NOT_IMPORTED")
EXPLAINED.register("acf", "recap.papers.acf.figures:cluster_notes")
