"""Chooses the processor that tensors live on."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from recap.core.errors import ConfigError, RecapError

if TYPE_CHECKING:
    import torch


def select_device(device: str) -> torch.device:
    """Return the device named ``auto``, ``cpu`` or ``cuda``; ``auto`` takes a GPU if there is one.

    Raises:
        RecapError: a GPU is asked for, but there is none that this build of torch can use.
        ConfigError: another name.
    """
    import torch

    if device not in ("auto", "cpu", "cuda"):
        raise ConfigError(f"device: there is no {device!r}; use auto, cpu or cuda")
    if device == "cpu":
        return torch.device("cpu")
    if torch.cuda.is_available():
        return torch.device("cuda")
    if device == "cuda":
        reason = "sees no GPU" if torch.version.cuda else "is a build without CUDA"
        raise RecapError(
            f"device: 'cuda' is asked for, but torch {torch.__version__} {reason}; use 'auto' or 'cpu', or install "
            "a CUDA build of torch on a machine with a GPU"
        )
    return torch.device("cpu")


def prepare_gpu(*, tf32: bool) -> None:
    """Have a GPU take sums in one order, where torch has such a form, and products of float32 in TF32 or in full.

    Memory that is not written yet is left as it is; torch would fill it with NaN, a pass over all of it.
    """
    import torch

    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without it cuBLAS may take another order
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.set_float32_matmul_precision("high" if tf32 else "highest")


def half_precision(device: torch.device) -> torch.dtype:
    """Return the type for automatic mixed precision on a device: bfloat16 where a GPU has it, float32 on the CPU."""
    import torch

    if device.type != "cuda":
        return torch.float32
    return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
