"""X-LAN and the X-Transformer: Pan et al. 2020, "X-Linear Attention Networks for Image Captioning".

`model` has the block (Eq. 1-9), X-LAN around an LSTM (section 3.3), and the blocks in a Transformer
(section 4.2).
"""

from recap.papers.xlan.settings import XLanModel, XTransformerModel
from recap.settings.models import RELEASED

__all__ = ["XLanModel", "XTransformerModel"]

RELEASED.register("xlan", "recap.papers.xlan.released:XLAN")
RELEASED.register("x_transformer", "recap.papers.xlan.released:X_TRANSFORMER")
