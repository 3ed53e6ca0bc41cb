"""Up-Down: an attention LSTM and a language LSTM.

Anderson et al. 2018, "Bottom-Up and Top-Down Attention for Image Captioning and Visual Question
Answering". The smallest folder of a paper: copy it to add one (docs/guides/add_a_model.md).
"""

from recap.papers.up_down.settings import UpDownModel
from recap.settings.models import RELEASED

__all__ = ["UpDownModel"]

RELEASED.register("up_down", "recap.papers.up_down.model:RELEASE")
