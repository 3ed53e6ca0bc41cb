"""The Fusion Transformer: grid and regions, encoded with directions and fused under the guidance of words.

Guo et al., "Fusion Transformer for Image Captioning". `relative_spatial` has geometry and direction (Eq. 6-11),
`positioned` attention with absolute positions (Eq. 12-17), `fusion_attention` guidance, attention and gate (Eq. 18-21);
`joined_transformer` is the baseline "G + R".
"""

from recap.papers.fusion.settings import FusionModel, JoinedTransformerModel
from recap.settings.models import EXPLAINED, RELEASED

__all__ = ["FusionModel", "JoinedTransformerModel"]

RELEASED.register("fusion", "recap.papers.fusion.released:NOT_IMPORTED")
EXPLAINED.register("fusion", "recap.papers.fusion.explained:EXPLAINED")
EXPLAINED.register("joined_transformer", "recap.papers.transformer.explained:EXPLAINED")
