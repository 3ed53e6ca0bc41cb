"""Weights of a backbone: tensors from a safetensors file, loaded strictly, and hashes of what was loaded."""

from __future__ import annotations

import hashlib
from pathlib import Path

import torch

from recap.core.errors import DamagedFeatures, FeatureError, MissingFeatures


def load_strictly(model: torch.nn.Module, path: Path, *, backbone: str) -> None:
    """Load a safetensors file whose names and shapes are exactly those of ``model``."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if not path.is_file():
        raise MissingFeatures(f"{path}: no such weights file; put it there, or correct `weights` of the features")
    if path.suffix != ".safetensors":
        raise FeatureError(f"{path}: only safetensors files are read, because other formats can run code; convert it")
    try:
        tensors = load_file(path)
    except (SafetensorError, OSError, ValueError) as error:
        raise DamagedFeatures(f"{path}: truncated or no safetensors file ({error}); fetch it again") from error
    problem = _difference(model.state_dict(), tensors)
    if problem:
        raise FeatureError(
            f"{path}: does not fit {backbone!r}: {problem}; correct `weights`, `backbone` or `image_size`"
        )
    model.load_state_dict(tensors, strict=True)


def _difference(expected: dict[str, torch.Tensor], given: dict[str, torch.Tensor]) -> str:
    """Say the first difference between two sets of tensors; empty if names and shapes are equal."""
    missing = [name for name in expected if name not in given]
    if missing:
        return f"it lacks {missing[0]!r} and {len(missing) - 1} other tensors"
    unknown = [name for name in given if name not in expected]
    if unknown:
        return f"it has {unknown[0]!r} and {len(unknown) - 1} other tensors that the backbone has not"
    shapes = [name for name in expected if expected[name].shape != given[name].shape]
    if shapes:
        name = shapes[0]
        return f"{name!r} is {list(given[name].shape)} instead of {list(expected[name].shape)}"
    return ""


def weights_hash(model: torch.nn.Module) -> str:
    """Return the sha256 of names, types, shapes and bytes of all tensors of a model."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}\0".encode())
        digest.update(memoryview(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy()))
    return digest.hexdigest()
