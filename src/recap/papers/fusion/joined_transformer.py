"""The Transformer on two streams of an image joined: the baseline "G + R" of the Fusion Transformer's paper (Table 2).

The paper says that grid and regions are concatenated. Each stream has a projection of its own, since they may have
different widths; then the vectors of the second follow those of the first, and the encoder attends to all alike.
Expected: 33.9 M parameters with two streams of 2048-d features, D 512, 3+3 layers, COCO's 9,487 words + <unk>.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from recap.core.errors import ConfigError
from recap.models.images import Images, InputSpec
from recap.nn.fast import Linear
from recap.papers.fusion.settings import JoinedTransformerModel
from recap.papers.transformer.model import Transformer


class JoinedTransformer(Transformer):
    """The Transformer on two streams."""

    def __init__(self, inputs: InputSpec, settings: JoinedTransformerModel) -> None:
        super().__init__(inputs, settings)
        self.streams = self.reads(inputs)
        self.second_embedding = Linear(inputs.sizes[self.streams[1]], settings.d_model)
        nn.init.xavier_uniform_(self.second_embedding.weight)

    @classmethod
    def reads(cls, inputs: InputSpec) -> Sequence[str]:
        """Return both streams."""
        if len(inputs.sizes) != 2:
            raise ConfigError(f"joined_transformer needs two streams, not {', '.join(inputs.sizes)}")
        return list(inputs.sizes)

    def embed_image(self, images: Images) -> tuple[Tensor, Tensor]:
        """Return the projected vectors of both streams, [B, N, D], and their mask [B, N]."""
        first, second = (images[name] for name in self.streams)
        projected = self.feature_embedding(first.values), self.second_embedding(second.values)
        return torch.relu(torch.cat(projected, 1)), torch.cat([first.mask, second.mask], 1)
