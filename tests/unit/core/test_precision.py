"""The number type of a step: as asked for, or the one in which this processor multiplies matrices quicker."""

import pytest
import torch

from recap.core import precision

CPU = torch.device("cpu")


def test_a_product_is_timed_in_both_number_types():
    seconds = precision.product_seconds(CPU)
    assert set(seconds) == {"float32", "bf16"} and all(value > 0 for value in seconds.values())


@pytest.mark.parametrize("bf16, expected", [(0.5, "bf16"), (0.95, "float32"), (50.0, "float32")])
def test_auto_takes_bf16_only_where_its_products_are_clearly_quicker(monkeypatch, bf16, expected):
    monkeypatch.setattr(precision, "product_seconds", lambda _: {"float32": 1.0, "bf16": bf16})
    assert precision.precision_here("auto", CPU) == expected


@pytest.mark.parametrize("asked", ["float32", "bf16"])
def test_what_is_asked_for_is_not_measured(monkeypatch, asked):
    monkeypatch.setattr(precision, "product_seconds", None)
    assert precision.precision_here(asked, CPU) == asked


@pytest.mark.parametrize("kind, expected", [("float32", torch.float32), ("bf16", torch.bfloat16)])
def test_products_of_a_step_have_its_number_type(kind, expected):
    with precision.mixed(kind, CPU):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == expected
