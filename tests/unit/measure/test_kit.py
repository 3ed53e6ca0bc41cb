"""`recap measure`: what it finds on a CPU, what it says of a machine that is wrong, and plans that read its file."""

import json

import pytest
import torch

from recap.core.errors import RecapError
from recap.measure import checks, kit
from recap.settings.models import MODELS

CPU = torch.device("cpu")


def test_every_kind_agrees_with_float64_in_every_precision():
    rows = list(checks.agreements(CPU, compiled=False))
    assert {row["kind"] for row in rows} == set(MODELS.classes())
    assert {row["precision"] for row in rows} >= {"float32", "bf16"}
    assert all(row["holds"] for row in rows)
    assert max(row["gradient"] for row in rows if row["precision"] == "bf16") > 1e-4  # it was computed in bf16


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["xe", "scst"])
def test_a_killed_training_continues_to_the_bit(stage, tmp_path):
    assert kit.resumed(stage, CPU, tmp_path) == {"stage": stage, "repeats": True, "resumes": True}


def test_a_machine_that_computes_something_else_is_told(tmp_path, monkeypatch):
    wrong = {"kind": "xlan", "precision": "bf16", "loss": 0.5, "gradient": 0.5, "captions": 1.0, "holds": False}
    monkeypatch.setattr(kit, "agreements", lambda device, compiled: [wrong])
    monkeypatch.setattr(kit, "resumed", lambda stage, *_: {"stage": stage, "repeats": True, "resumes": stage == "xe"})
    monkeypatch.setattr(kit, "paper_shapes", lambda **_: [])
    out = tmp_path / "measured.json"
    with pytest.raises(RecapError, match=r"xlan in bf16; a killed training \(scst\)"):
        kit.measured(out, device="cpu", tiny=True, compiled=False)
    assert "**Does not hold: xlan in bf16" in out.with_suffix(".md").read_text()
    assert json.loads(out.read_text())["agreement"][0]["holds"] is False
