"""AoANet: attention on attention.

Huang et al. 2019, "Attention on Attention for Image Captioning".
"""

from recap.papers.aoanet.settings import AoANetModel

__all__ = ["AoANetModel"]
