"""M2, the Meshed-Memory Transformer.

Cornia et al. 2020, "Meshed-Memory Transformer for Image Captioning". `layers` has the memory slots of the encoder
and the gates of the decoder over all levels.
"""

from recap.papers.m2.settings import M2Model
from recap.settings.models import RELEASED

__all__ = ["M2Model"]

RELEASED.register("m2", "recap.papers.m2.released:RELEASE")
