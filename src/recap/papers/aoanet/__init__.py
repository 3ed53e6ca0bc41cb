"""AoANet (Huang et al. 2019, "Attention on Attention for Image Captioning")."""

from recap.papers.aoanet.settings import AoANetModel
from recap.settings.models import RELEASED

__all__ = ["AoANetModel"]

RELEASED.register("aoanet", "recap.papers.aoanet.released:RELEASE")
