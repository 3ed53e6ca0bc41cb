"""The processor that tensors live on, and the number type of a step on it."""

from __future__ import annotations

import os

import torch

from recap.core.errors import ConfigError, RecapError
from recap.core.log import log

# Names of `torch.cpu.get_capabilities`, of x86 and of ARM:
# instructions that multiply bfloat16 numbers.
CPU_UNITS = ("amx_bf16", "avx512_bf16", "bf16")


def select_device(device: str) -> torch.device:
    """Return the device named ``auto``, ``cpu`` or ``cuda``.

    ``auto`` takes a GPU if there is one.
    """
    if device not in ("auto", "cpu", "cuda"):
        raise ConfigError(f"device: there is no {device!r}; use auto, cpu or cuda")
    if device != "cpu" and torch.cuda.is_available():
        return torch.device("cuda")
    if device == "cuda":
        reason = "sees no GPU" if torch.version.cuda else "is a build without CUDA"
        raise RecapError(
            f"device: 'cuda' is asked for, but torch {torch.__version__} {reason}; use 'auto' or "
            "'cpu', or install a CUDA build of torch on a machine with a GPU"
        )
    return torch.device("cpu")


def prepare_gpu(*, tf32: bool) -> None:
    """Have a GPU take sums in one order, where torch has such a form,
    and products of float32 in TF32 or in full."""
    # without it cuBLAS may take another order
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True, warn_only=True)
    # Torch would fill memory that is not written yet with NaN, a pass over all of it.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.set_float32_matmul_precision("high" if tf32 else "highest")


def half_precision(device: torch.device) -> torch.dtype:
    """Return the type for automatic mixed precision on a device:
    bfloat16 where a GPU has it, float32 on the CPU."""
    if device.type != "cuda":
        return torch.float32
    return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16


def mixed(kind: str, device: torch.device) -> torch.autocast:
    """Return the context in which products are taken in 'bf16'; 'float32' is left as it is."""
    return torch.autocast(device.type, torch.bfloat16, enabled=kind == "bf16")


def precision_here(wanted: str, device: torch.device) -> str:
    """Return 'float32' or 'bf16'; for 'auto' bf16 where the device has units for it."""
    if wanted != "auto":
        return wanted
    # no clock decides: on one machine a training has the same bytes each time
    unit = bf16_unit(device)
    if unit is None:
        log.info("precision: float32, as this processor has no units for bf16")
        return "float32"
    log.info(f"precision: bf16, by {unit}")
    return "bf16"


def bf16_unit(device: torch.device) -> str | None:
    """Return what multiplies bfloat16 numbers on a device.

    Nothing where it emulates them, fifty times as slow.
    """
    if device.type == "cuda":
        has_units = torch.cuda.is_bf16_supported(including_emulation=False)
        return "the GPU's units" if has_units else None
    if not hasattr(torch.cpu, "get_capabilities"):
        raise ConfigError(
            f"`precision: auto` needs a later torch than {torch.__version__}; say float32 or bf16"
        )
    capabilities = torch.cpu.get_capabilities()
    return next((unit for unit in CPU_UNITS if capabilities.get(unit)), None)
