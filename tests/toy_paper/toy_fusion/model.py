"""A toy captioner of cells, and of regions with their boxes:
h_t = tanh(e_t + mean(e_1 .. e_t) + image)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from recap.core.errors import ConfigError
from recap.models.base import Captioner
from recap.models.images import Images, InputSpec
from recap.models.state import PER_BEAM, GlobalMemory, State, masked_mean
from toy_fusion.settings import ToyFusionModel

STREAMS = ("grid", "region")


@dataclass(frozen=True, kw_only=True)
class ToyState(State[GlobalMemory]):
    """The sum of the embedded tokens so far, [B, C, D]."""

    total: Tensor = field(metadata=PER_BEAM)


class ToyFusion(Captioner[GlobalMemory, ToyState]):
    """The toy."""

    reads_boxes = ("region",)

    def __init__(self, inputs: InputSpec, settings: ToyFusionModel) -> None:
        super().__init__()
        d_model = settings.d_model
        self.embedding = nn.Embedding(inputs.vocabulary_size, d_model)
        self.cells = nn.Linear(inputs.sizes["grid"], d_model)
        self.regions = nn.Linear(inputs.sizes["region"] + 4, d_model)
        self.output = nn.Linear(d_model, inputs.vocabulary_size)

    @classmethod
    def reads(cls, inputs: InputSpec) -> Sequence[str]:
        """Both streams."""
        if not set(STREAMS) <= inputs.sizes.keys():
            raise ConfigError(
                f"toy_fusion needs the streams grid and region, not {', '.join(inputs.sizes)}"
            )
        return STREAMS

    def encode(self, images: Images) -> GlobalMemory:
        """Images -> projected cells, and the sum of both means."""
        grid, region = (images[name] for name in STREAMS)
        assert region.boxes is not None and region.sizes is not None
        # [B, N, 4], fractions of the image
        boxes = region.boxes / region.sizes.repeat(1, 2)[:, None]
        cells = self.cells(grid.values)
        regions = self.regions(torch.cat([region.values, boxes], -1))
        return GlobalMemory(
            cells, grid.mask, masked_mean(cells, grid.mask) + masked_mean(regions, region.mask)
        )

    def decode(self, tokens: Tensor, memory: GlobalMemory) -> Tensor:
        """Tokens [B, C, T] -> hidden [B, C, T, D]."""
        embedded = self.embedding(tokens)
        counts = torch.arange(1, tokens.shape[-1] + 1, device=tokens.device)[:, None]
        return self._hidden(embedded, embedded.cumsum(2) / counts, memory)

    def _hidden(self, embedded: Tensor, mean: Tensor, memory: GlobalMemory) -> Tensor:
        return torch.tanh(embedded + mean + memory.summary[:, None, None])

    def logits(self, hidden: Tensor) -> Tensor:
        """[..., D] -> [..., V]."""
        return self.output(hidden)

    def start(self, memory: GlobalMemory) -> ToyState:
        """No token yet: their sum is 0."""
        total = memory.values.new_zeros(len(memory.values), 1, self.embedding.embedding_dim)
        return ToyState(memory, total=total)

    def step(self, tokens: Tensor, state: ToyState) -> tuple[Tensor, ToyState]:
        """Tokens [B, C] -> log-probabilities [B, C, V] and the new state."""
        embedded = self.embedding(tokens)
        total, count = state.total + embedded, state.position + 1
        hidden = self._hidden(embedded[:, :, None], (total / count)[:, :, None], state.memory)
        return self.log_probabilities(hidden[:, :, 0]), ToyState(state.memory, count, total=total)
