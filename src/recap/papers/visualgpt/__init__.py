"""VisualGPT: a pretrained GPT-2 that describes images.

Chen et al. 2022, "VisualGPT: Data-efficient Adaptation of Pretrained Language Models for Image
Captioning". `model` follows its equations, `figures` draws the figures of its gates (4.1 and 5.6)
and of parts of speech.
"""

from recap.papers.visualgpt.settings import (
    GateFunctionsFigure,
    GatesFigure,
    PartsOfSpeechFigure,
    VisualGptModel,
)
from recap.settings.models import EXPLAINED, RELEASED

__all__ = ["GateFunctionsFigure", "GatesFigure", "PartsOfSpeechFigure", "VisualGptModel"]

RELEASED.register("visual_gpt", "recap.papers.visualgpt.released:RELEASE")
EXPLAINED.register("visual_gpt", "recap.papers.visualgpt.model:gate_notes")
