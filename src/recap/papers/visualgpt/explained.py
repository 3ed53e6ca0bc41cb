"""What VisualGPT looked at, and how much of each word its last layer took from the image (section 5.6)."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from recap.models.base import Captioner
from recap.models.explained import Explained, Note
from recap.models.images import Images
from recap.papers.visualgpt.figures import visual_gates
from recap.papers.visualgpt.srau import SelfResurrecting


def gates(model: Captioner, images: Images, tokens: Tensor, words: Sequence[str]) -> list[Note]:
    """Return the visual gate of the last layer behind each word; other fusions than SRAU have none."""
    if not any(isinstance(module, SelfResurrecting) for module in model.modules()):
        return []
    visual, _ = visual_gates(model, tokens, model.encode(images))
    return [Note("visual gate of the last layer", values=visual[-1, 0, 0, : len(words)].tolist())]


EXPLAINED = Explained(notes=gates)
