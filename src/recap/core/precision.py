"""Float32 or bfloat16: the context of a step in either, and whether a processor has units for bfloat16 at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recap.core.errors import ConfigError
from recap.core.log import log

if TYPE_CHECKING:
    import torch

# Names of `torch.cpu.get_capabilities`, of x86 and of ARM: instructions that multiply bfloat16 numbers.
CPU_UNITS = ("amx_bf16", "avx512_bf16", "bf16")


def mixed(kind: str, device: torch.device) -> torch.autocast:
    """Return the context in which products are taken in 'bf16', or in which 'float32' is left as it is."""
    import torch

    return torch.autocast(device.type, torch.bfloat16, enabled=kind == "bf16")


def precision_here(asked: str, device: torch.device) -> str:
    """Return 'float32' or 'bf16': what is asked for, and for 'auto' bf16 where the device has units for it.

    No clock decides: on one machine a training has the same bytes each time.
    """
    if asked != "auto":
        return asked
    unit = bf16_unit(device)
    log.info(f"precision: {'bf16, by ' + unit if unit else 'float32, as this processor has no units for bf16'}")
    return "bf16" if unit else "float32"


def bf16_unit(device: torch.device) -> str | None:
    """Return what multiplies bfloat16 numbers on a device, or nothing: emulated, they take up to fifty times as long.

    Raises:
        ConfigError: this torch cannot tell.
    """
    import torch

    if device.type == "cuda":
        return "the GPU's units" if torch.cuda.is_bf16_supported(including_emulation=False) else None
    if not hasattr(torch.cpu, "get_capabilities"):
        raise ConfigError(f"`precision: auto` needs a later torch than {torch.__version__}; say float32 or bf16")
    found = torch.cpu.get_capabilities()
    return next((unit for unit in CPU_UNITS if found.get(unit)), None)
