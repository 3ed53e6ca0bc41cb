"""The full state of a training, saved so that a kill at any moment costs at most one interval.

torch writes a zip, whose members carry a CRC each; torch does not look at them when it reads, so they are checked here.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from recap.core.errors import TrainingError
from recap.core.files.atomic import atomic_path

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
        TrainingError: the file is there but damaged.
    """
    path = folder / "last.pt"
    if not path.exists():
        return None
    try:
        _check(path)
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        reason = str(error).strip().splitlines()[0] if isinstance(error, zipfile.BadZipFile) else type(error).__name__
        raise TrainingError(f"{path}: is damaged ({reason}); delete it to start over") from error
    if state["identity"] != identity or state["version"] != VERSION:
        return None
    torch.set_rng_state(state["random"]["cpu"][rank].clone())
    if "cuda" in state["random"] and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["random"]["cuda"])
    return state


def _check(path: Path) -> None:
    """Compare every member of a zip with its CRC.

    Raises:
        zipfile.BadZipFile: one differs, or the file is no zip.
    """
    with zipfile.ZipFile(path) as file:
        member = file.testzip()
    if member is not None:
        raise zipfile.BadZipFile(f"bad CRC-32 of {member}")
