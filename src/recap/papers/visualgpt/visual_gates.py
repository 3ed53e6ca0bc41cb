"""The gates of VisualGPT behind each token of a caption, for its figures of visual scores."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from recap.core.errors import ConfigError
from recap.models.base import Captioner
from recap.models.state import Memory
from recap.papers.visualgpt.srau import SelfResurrecting


@torch.no_grad()
def visual_gates(model: Captioner, tokens: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
    """Return B_vis and B_lan under teacher forcing, each [layers, B, C, T]: means over the width and encoder levels.

    The paper's visual score of a word (section 5.6) is B_vis of the last layer.

    Args:
        model: a VisualGPT with fusion `srau`.
        tokens: [B, C, T], beginning with <bos>; entry t is the gate behind token t + 1.
        memory: of the images.

    Raises:
        ConfigError: the model has no such gates.
    """
    gates = [module for module in model.modules() if isinstance(module, SelfResurrecting)]
    if not gates:
        raise ConfigError(f"{type(model).__name__} has no visual gates; take kind visual_gpt with fusion srau")
    visual: list[Tensor] = []
    language: list[Tensor] = []

    def kept(means: list[Tensor]) -> Callable[[nn.Module, object, Tensor], None]:
        def keep(_module: nn.Module, _inputs: object, gate: Tensor) -> None:
            means.append(gate.mean(-1))

        return keep

    handles = [gate.visual.register_forward_hook(kept(visual)) for gate in gates]
    handles += [gate.language.register_forward_hook(kept(language)) for gate in gates]
    try:
        model.decode(tokens, memory)
    finally:
        for handle in handles:
            handle.remove()

    def per_layer(means: list[Tensor]) -> Tensor:  # a layer's gates are called once per level
        return torch.stack(means).unflatten(0, (len(gates), -1)).mean(1)

    return per_layer(visual), per_layer(language)
