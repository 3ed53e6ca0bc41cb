"""What is found on a machine is told with its version,
what is not with what is lost and how to get it."""

from importlib.metadata import version
from pathlib import Path

import pytest
import torch

from helpers.commands import printed, refused_command
from helpers.plans import PARAMS
from recap.cli import doctor
from recap.data import tokenizer
from recap.plan.profiles import named_plan


def test_all_that_is_missing_says_what_is_lost_and_how_to_get_it(monkeypatch):
    monkeypatch.setattr(doctor.shutil, "which", lambda program: None)
    monkeypatch.setattr(doctor, "java_executable", lambda: None)
    monkeypatch.setattr(doctor, "spice_models_missing", lambda: "a.jar: is not installed")
    monkeypatch.setattr(doctor, "_installed", lambda name: None)
    every = doctor.examine(Path())
    lacking = {each.name: each for each in every if each.version is None}
    assert "recap-captions[slurm]" in lacking["snakemake-executor-plugin-slurm"].get
    assert {
        "LaTeX",
        "browser",
        "Slurm",
        "Java",
        "SPICE's models",
        "detectron2",
        "torch",
        "tagger",
    } <= set(lacking)
    assert all(each.without and each.get for each in lacking.values())
    page = doctor.report(every)
    assert all(each.without in page and f"get it: {each.get}" in page for each in lacking.values())


def test_a_gpu_that_torch_cannot_use_is_told(monkeypatch):
    monkeypatch.setattr(doctor, "devices", lambda: ["0"])
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    gpu = next(each for each in doctor.examine(Path()) if each.name == "GPU")
    assert gpu.version is None and "GPU 0 is there" in gpu.without and "CUDA build" in gpu.get


@pytest.mark.parametrize("script", ["exit 3", "sleep 60", None], ids=["fails", "hangs", "missing"])
def test_a_program_that_cannot_say_its_version_is_not_there(tmp_path, monkeypatch, script):
    monkeypatch.setattr(doctor, "_SECONDS", 0.5)
    program = tmp_path / "sbatch"
    if script:
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    assert doctor.version_of(program, "--version") is None


def test_the_command_prints_what_is_here_and_wants_a_folder(capsys, tmp_path):
    page = printed(capsys, "doctor", "--folder", tmp_path)
    assert page.startswith("Here:\n") and version("torch") in page and f"GiB in {tmp_path}" in page
    assert str(tmp_path / "none") in refused_command(
        capsys, "doctor", "--folder", tmp_path / "none"
    )


@pytest.mark.parametrize("installed", [True, False])
def test_no_tagger_is_loaded_to_know_whether_one_is_installed(installed, monkeypatch):
    monkeypatch.setattr(tokenizer, "tag", lambda *_: pytest.fail("a tagger was loaded"))
    monkeypatch.setattr(doctor, "_installed", lambda name: "1" if installed else None)
    (here,) = [
        each.version
        for each in doctor.plan_tools(named_plan(PARAMS, "demo"))
        if each.name == "tagger"
    ]
    assert bool(here) == installed
