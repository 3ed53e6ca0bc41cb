"""ZoDIAC-Transformer: refined attention, scaled by its intensity."""

from recap.papers.zodiac.settings import ZodiacModel
from recap.settings.models import RELEASED

__all__ = ["ZodiacModel"]

RELEASED.register("zodiac", "recap.papers.zodiac.model:RELEASE")
