"""Files of weights that verify themselves: safetensors whose metadata hold a digest of the tensors."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from recap.core.errors import TrainingError, first_line
from recap.core.files import atomic_path
from recap.models.base import Captioner

DIGEST = "tensors_sha256"  # the only key: safetensors writes several in an order that changes from run to run


def plain_weights(model: Captioner) -> dict[str, Tensor]:
    """The model's tensors as safetensors wants them: contiguous, on the CPU."""
    return {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}


def tensors_digest(tensors: Mapping[str, Tensor]) -> str:
    """Return the sha256 over names, types, shapes and bytes of contiguous tensors, by name."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        value = tensors[name]
        digest.update(f"{name}\0{value.dtype}\0{tuple(value.shape)}\0".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def save_weights(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors with their digest, atomically."""
    from safetensors.torch import save_file

    with atomic_path(path) as temporary:
        save_file(dict(tensors), temporary, metadata={DIGEST: tensors_digest(tensors)})


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read a file of tensors and compare it with its digest; a file that others wrote has none and passes."""
    from safetensors import SafetensorError, safe_open

    if not path.exists():
        raise TrainingError(f"{path}: no such weights; run the stage that makes them first")
    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
    except (SafetensorError, OSError, ValueError) as error:
        raise _damaged(path, first_line(error)) from error
    if DIGEST in metadata and metadata[DIGEST] != tensors_digest(tensors):
        raise _damaged(path, "its tensors are not those that were saved")
    return tensors


def _damaged(path: Path, reason: str) -> TrainingError:
    return TrainingError(f"{path}: is damaged ({reason}); delete it and run the stage that makes it again")
