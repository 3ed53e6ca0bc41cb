"""M2 (Cornia et al. 2020, "Meshed-Memory Transformer for Image Captioning")."""

from recap.papers.m2.settings import M2Model
from recap.settings.models import RELEASED

__all__ = ["M2Model"]

RELEASED.register("m2", "recap.papers.m2.released:RELEASE")
