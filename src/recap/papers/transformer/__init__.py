"""The Transformer for captioning, the baseline of four of the five papers.

Vaswani et al. 2017, "Attention Is All You Need", on image features as in Sharma et al. 2018.
Decoder and layers, which other papers change, are in `recap.models`.
"""

from recap.papers.transformer.settings import TransformerModel
from recap.settings.models import RELEASED

__all__ = ["TransformerModel"]

RELEASED.register("transformer", "recap.papers.transformer.model:RELEASE")
