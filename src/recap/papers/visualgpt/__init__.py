"""VisualGPT: a pretrained GPT-2 that describes images.

Chen et al. 2022, "VisualGPT: Data-efficient Adaptation of Pretrained Language Models for Image Captioning". `srau` has
the self-resurrecting activation units, `figures` and `gates_figure` the figures of the gates (section 5.6).
"""

from recap.papers.visualgpt.figure_settings import GateFunctionsFigure, GatesFigure, PartsOfSpeechFigure
from recap.papers.visualgpt.settings import VisualGptModel
from recap.settings.models import EXPLAINED, RELEASED

__all__ = ["GateFunctionsFigure", "GatesFigure", "PartsOfSpeechFigure", "VisualGptModel"]

RELEASED.register("visual_gpt", "recap.papers.visualgpt.released:RELEASE")
EXPLAINED.register("visual_gpt", "recap.papers.visualgpt.explained:EXPLAINED")
