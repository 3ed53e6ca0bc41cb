"""The model's training passes through torch.compile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from recap.models.base import Captioner
from recap.nn.fast import prepare_compilation


def compile_passes(model: Captioner, *, backend: str | Callable[..., Any] = "inductor") -> None:
    """Compile, in place, what a training step runs: encoding and teacher forcing over the real words.

    Batches differ in images, captions, lengths and real words, so all sizes are left open: one graph serves them all.
    Decoding word by word is left as it is. `inductor` needs a C++ compiler on a CPU and Triton on a GPU.
    """
    prepare_compilation()
    model.encode = torch.compile(model.encode, dynamic=True, backend=backend)  # type: ignore[method-assign]
    model.decode_words = torch.compile(model.decode_words, dynamic=True, backend=backend)  # type: ignore[method-assign]
