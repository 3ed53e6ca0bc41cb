"""X-LAN and the X-Transformer: X-Linear attention.

Pan et al. 2020, "X-Linear Attention Networks for Image Captioning". `x_linear` is the block (Eq. 1-6), `model` X-LAN
around an LSTM (section 3.3), `x_transformer` the blocks in a Transformer.
"""

from recap.papers.xlan.settings import XLanModel, XTransformerModel
from recap.settings.models import RELEASED

__all__ = ["XLanModel", "XTransformerModel"]

RELEASED.register("xlan", "recap.papers.xlan.released:RELEASE")
RELEASED.register("x_transformer", "recap.papers.xlan.released_x_transformer:RELEASE")
