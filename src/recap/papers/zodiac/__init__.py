"""ZoDIAC-Transformer: refined attention, scaled by its intensity.

"ZoDIAC: Zoneup Dropout Injection Attention Calculation". `zoneup` is the attention (Eq. 2-12).
"""

from recap.papers.zodiac.settings import ZodiacModel

__all__ = ["ZodiacModel"]
