"""`make gpu` on the CPU: what its file says where all is right,
where numbers differ, and where a row fails."""

import json
from dataclasses import replace

import pytest
import torch
from benchmarks import gpu

from recap.settings.models import MODELS

TINY = ["--device", "cpu", "--tiny"]
pytestmark = pytest.mark.seconds


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run the plain steps of a kind alone; return the exit status and the file."""
    monkeypatch.setattr(gpu, "other_rows", lambda *_, **__: None)

    def of(*arguments, kind="transformer"):
        status = gpu.main(
            [*TINY, "--plain", "--kinds", kind, "--out", str(tmp_path / "gpu.json"), *arguments]
        )
        return status, json.loads((tmp_path / "gpu.json").read_text())

    return of


def test_losses_of_twenty_steps_are_those_of_the_cpu_in_float64(run):
    status, file = run()
    assert status == 0 and file["finished"] and file["does_not_hold"] == file["not_reached"] == []
    full, half = file["steps"]
    assert (full["precision"], half["precision"]) == ("float32", "bf16")
    assert (
        len(full["losses"]) == len(full["exact"]) == 20
        and full["exact"][-1] < 0.95 * full["exact"][0]
    )
    assert full["difference"] < 1e-6 < 1e-5 < half["difference"]  # it was computed in bf16
    assert full["equal_captions"] == 1 and full["seconds"] > 0


def test_a_model_that_computes_something_else_is_named_and_the_status_is_1(
    run, monkeypatch, capsys
):
    exact = gpu.double
    monkeypatch.setattr(
        gpu, "double", lambda stream: replace(exact(stream), values=1.1 * exact(stream).values)
    )
    status, file = run()
    assert status == 1
    assert "steps, kind transformer, precision float32, compiled False" in file["does_not_hold"]
    assert "does not hold: steps, kind transformer, precision float32" in capsys.readouterr().out


def test_a_row_that_fails_is_in_the_file_and_the_next_one_is_computed(run, monkeypatch):
    def fails_in_float32(shape, device, precision, *, compiled, right=gpu.trained):
        if precision == "float32":
            raise RuntimeError("no kernel image is available")
        return right(shape, device, precision, compiled=compiled)

    monkeypatch.setattr(gpu, "trained", fails_in_float32)
    status, file = run()
    assert status == 1 and "no kernel image is available" in file["steps"][0]["error"]
    assert file["steps"][1]["holds"] and len(file["does_not_hold"]) == 1


def test_rows_for_which_there_is_no_time_are_listed(run):
    status, file = run("--minutes", "0")
    assert status == 0 and "steps" not in file and len(file["not_reached"]) == 2


@pytest.mark.slow
@pytest.mark.parametrize("kind", MODELS.classes())
def test_every_kind_agrees_with_float64(run, kind):
    status, file = run(kind=kind)
    assert status == 0, file["does_not_hold"]


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["xe", "scst"])
def test_a_killed_training_continues_to_the_bit(stage):
    assert gpu.resumed(stage, torch.device("cpu")) == {
        "repeats": True,
        "resumes": True,
        "holds": True,
    }
