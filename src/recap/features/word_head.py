"""Which words an image's captions have, told from its feature maps.

Fang et al. 2015, "From Captions to Visual Concepts and Back", section 3: a word of an image's captions is seen in at
least one of its cells, over all views,

    p(word | image) = 1 - prod over cells (1 - sigmoid(w f + b)).

What all pictures of a kind have in common hides what tells them apart, so that f are standardized channels.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from recap.features.maps import ChannelScale


class WordHead(nn.Module):
    """Scores words in each cell of a map whose channels are first standardized."""

    def __init__(self, scale: ChannelScale, *, share: Tensor, cells: float) -> None:
        """Begin with scores that give each word its share of the images.

        Args:
            scale: of the C channels.
            share: of the images that have each word, [W].
            cells: of an image, over all its views.
        """
        super().__init__()
        self.mean: Tensor
        self.factor: Tensor
        self.register_buffer("mean", scale.mean[:, None, None])
        self.register_buffer("factor", scale.factor[:, None, None])
        self.words = nn.Conv2d(len(scale.mean), len(share), 1)
        nn.init.zeros_(self.words.weight)
        self.words.bias = nn.Parameter(torch.log(torch.expm1(-torch.log1p(-share) / cells)).float())

    def forward(self, maps: Tensor) -> Tensor:
        """Return scores [V, W, cells] of maps [V, C, grid, grid]."""
        scores: Tensor = self.words((maps.float() - self.mean) * self.factor)
        return scores.flatten(2)


def word_loss(scores: Tensor, counts: Sequence[int], labels: Tensor) -> Tensor:
    """Return the mean binary cross-entropy of the words of images.

    Args:
        scores: of the cells of all views of all images, [V, W, cells].
        counts: number of views of each of B images, V in all.
        labels: [B, W], True where a caption of the image has the word.
    """
    absent = -softplus(scores).sum(-1)  # log p of no cell of a view, [V, W]
    absent = torch.stack([view.sum(0) for view in absent.split(list(counts))]).clamp(max=-1e-6)
    return -torch.where(labels, torch.log(-torch.expm1(absent)), absent).mean()
