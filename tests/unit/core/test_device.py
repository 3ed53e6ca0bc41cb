"""The number type of a step: as asked for, or the one that this processor has units for."""

import pytest
import torch

from recap.core import device

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    "unit, expected", [(unit, "bf16") for unit in device.CPU_UNITS] + [("avx512_f", "float32")]
)
def test_auto_takes_bf16_only_where_the_processor_has_units_for_it(monkeypatch, unit, expected):
    monkeypatch.setattr(
        torch.cpu, "get_capabilities", lambda: {"architecture": "x86_64", "avx2": True, unit: True}
    )
    assert device.precision_here("auto", CPU) == expected


@pytest.mark.parametrize("units, expected", [(True, "bf16"), (False, "float32")])
def test_auto_asks_a_gpu_for_units_and_takes_no_emulation(monkeypatch, units, expected):
    monkeypatch.setattr(
        torch.cuda, "is_bf16_supported", lambda *, including_emulation: units or including_emulation
    )
    assert device.precision_here("auto", torch.device("cuda")) == expected
