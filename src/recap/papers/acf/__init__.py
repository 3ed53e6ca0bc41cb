"""Ada-ClustFormer (ACF): a Transformer whose self-attention clusters neighboring elements.

"Adaptively Clustering Neighbor Elements for Image Captioning". `clusters` predicts where words and patches belong
together (Eq. 4-8), `cluster_matrix` multiplies that into C (Eq. 3), `cluster_attention` weakens
attention by it (Eq. 2). `figures` makes Figure 5 from `cluster_tree` and `drawing`, and the measure of section 4.1 from
`alignment`.
"""

from recap.papers.acf.figure_settings import AlignmentFigure, ClustersFigure
from recap.papers.acf.settings import AcfModel
from recap.settings.models import EXPLAINED, RELEASED

__all__ = ["AcfModel", "AlignmentFigure", "ClustersFigure"]

RELEASED.register("acf", "recap.papers.acf.released:NOT_IMPORTED")
EXPLAINED.register("acf", "recap.papers.acf.explained:EXPLAINED")
