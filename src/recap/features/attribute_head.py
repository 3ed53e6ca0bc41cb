"""Attributes of regions, from their vectors and their classes."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class AttributeHead(nn.Module):
    """Attributes from a region's vector and an embedding of its class (Anderson et al. 2018, section 3.1)."""

    def __init__(self, *, classes: int, attributes: int, size: int, none: bool) -> None:
        """Build it with random weights.

        Args:
            classes: classes without the background, which has an embedding, too.
            attributes: what it tells apart.
            size: length of the vectors.
            none: whether it also scores "no attribute", in the last place.
        """
        super().__init__()
        self.attributes = attributes
        self.embedding = nn.Embedding(classes + 1, 256)
        self.hidden = nn.Linear(size + 256, 512)
        self.scores = nn.Linear(512, attributes + none)

    def forward(self, vectors: Tensor, classes: Tensor) -> Tensor:
        """Return probabilities [R, attributes], without "no attribute", for vectors [R, size] and classes [R]."""
        hidden = torch.relu(self.hidden(torch.cat([vectors, self.embedding(classes)], 1)))
        probabilities: Tensor = self.scores(hidden).softmax(-1)
        return probabilities[:, : self.attributes]
