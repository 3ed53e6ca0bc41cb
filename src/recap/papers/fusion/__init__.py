"""The Fusion Transformer: grid and regions,
encoded with directions and fused under the guidance of words.

Guo et al., "Fusion Transformer for Image Captioning". `model` follows its equations; its baseline
"G + R" is there too.
"""

from recap.papers.fusion.settings import FusionModel, JoinedTransformerModel
from recap.settings.models import RELEASED

__all__ = ["FusionModel", "JoinedTransformerModel"]

NOT_IMPORTED = (
    "no checkpoint of the Fusion Transformer was released; train the models in params/fusion"
)
RELEASED.register("fusion", "recap.papers.fusion:NOT_IMPORTED")
