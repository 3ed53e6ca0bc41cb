"""The full state of a training, saved so that a kill at any moment costs at most one interval."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from recap.core.atomic import atomic_path
from recap.core.errors import TrainingError

VERSION = 2


def save_state(folder: Path, state: dict[str, Any], *, identity: str, random_states: Tensor | None = None) -> None:
    """Write `folder/last.pt` atomically: tensors, numbers and the random states of torch, a row a process."""
    random = {"cpu": torch.get_rng_state()[None] if random_states is None else random_states}
    if torch.cuda.is_available():
        random["cuda"] = torch.cuda.get_rng_state()
    with atomic_path(folder / "last.pt") as temporary:
        torch.save({"version": VERSION, "identity": identity, "random": random, **state}, temporary)


def load_state(folder: Path, *, identity: str, rank: int = 0) -> dict[str, Any] | None:
    """Return the saved state of this very training and restore the random states, or None if there is none.

    Args:
        folder: where `last.pt` lies.
        identity: hash of everything the training depends on; the state of another config or other code is not used.
        rank: which process's random state is restored.

    Raises:
        TrainingError: the file is there but cannot be read.
    """
    path = folder / "last.pt"
    if not path.exists():
        return None
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise TrainingError(f"{path}: cannot be read ({type(error).__name__}); delete it to start over") from error
    if state["identity"] != identity or state["version"] != VERSION:
        return None
    torch.set_rng_state(state["random"]["cpu"][rank].clone())
    if "cuda" in state["random"] and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["random"]["cuda"])
    return state
