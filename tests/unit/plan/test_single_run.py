"""A row of a table trains in this process:
what it is made from, what may be different, and what it ends with."""

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from helpers.commands import refused_command
from helpers.plans import edited
from helpers.refusals import refused
from helpers.tiny_workspace import ROOT
from recap.cli import options, train
from recap.core.errors import ConfigError
from recap.plan.outside import missing_files
from recap.plan.profiles import row_config
from recap.plan.single import single_job, single_jobs, single_run
from recap.settings import Execution, ExecutionFile, Profile
from recap.settings.params import validate

pytestmark = pytest.mark.seconds

PARAMS = ROOT / "tests" / "workflow" / "params"


def chosen_run(row="tiny/zodiac", *changes, stage=None, params=PARAMS, **options):
    return single_run(row_config(params, row, seed=2, **options), stage=stage, changes=changes)


def test_a_row_is_a_spec_with_some_other_values():
    changes = [
        "xe.schedule.learning_rate=1e-4",
        "model.d_model=32",
        "execution.device=cpu",
        "evaluation.beam=1",
    ]
    result = chosen_run("tiny/zodiac", *changes, "execution.max_steps=3")
    assert (result.spec.stage, result.spec.seed, result.spec.model_settings.d_model) == (
        "xe",
        2,
        32,
    )
    assert result.spec.stage_settings.schedule.learning_rate == 1e-4
    assert (result.execution.device, result.evaluation.evaluation.beam) == ("cpu", 1)
    assert result.execution.is_short and not chosen_run().execution.is_short


@pytest.mark.parametrize(
    ("row", "changes", "named"),
    [
        ("zodiac", [], ["TABLE/ROW"]),
        ("tiny/zodiak", [], ["'tiny/zodiak'", "'tiny/zodiac'"]),
        ("tiny/zodiac", ["scst.epochs=1"], ["xe", "--stage scst"]),
        ("tiny/zodiac", ["xe.epoch=1"], ["'stage_settings.epoch'", "'epochs'"]),
        ("tiny/zodiac", ["xe.epochs=" + "- " * 5000], ["xe.epochs"]),
    ],
)
def test_a_wrong_row_or_value_is_one_sentence(row, changes, named):
    with refused(ConfigError, *named):
        chosen_run(row, *changes)


def test_a_profile_gives_its_folders_and_settings_and_options_go_before_them(tmp_path):
    profile = tmp_path / "mine.yaml"
    profile.write_text(
        "{name: mine, tables: [photos], seeds: [7, 8], inputs: a, execution: "
        "{threads: 3}, studies: [s]}"
    )
    result = chosen_run(profile=profile, inputs=Path("b"))
    assert (result.plan.profile.name, result.plan.profile.inputs, result.execution.threads) == (
        "mine",
        "b",
        3,
    )
    assert list(result.plan.tables) == ["tiny"] and result.plan.seeds == {"tiny": [2]}


def test_scales_have_folders_of_their_own(tmp_path):
    assert chosen_run().plan.profile.name == "single"
    assert chosen_run(scale="paper").plan.profile.name == "single_paper"
    profile = tmp_path / "mine.yaml"
    profile.write_text("{name: mine, tables: [photos], scale: photos}")
    with refused(ConfigError, "--scale", "mine.yaml", "at scale photos"):
        chosen_run(profile=profile, scale="paper")


@pytest.mark.parametrize(("key", "value"), [("max_steps", 10), ("overfit_one_batch", True)])
def test_no_profile_cuts_trainings_short_because_their_results_would_count_as_finished(key, value):
    values = {"name": "mine", "tables": ["t"], "execution": {key: value}}
    with refused(ConfigError, "params/mine.yaml", f"'execution.{key}'"):
        validate(Profile, values, "params/mine.yaml")
    assert (
        ExecutionFile(max_steps=10, overfit_one_batch=True).model_dump() == Execution().model_dump()
    )


def test_weights_that_are_set_are_inputs_and_missing_ones_are_named(tmp_path):
    params = Path(shutil.copytree(ROOT / "params", tmp_path / "params"))
    row = {
        "id": "v",
        "label": "v",
        "model": "visual_gpt",
        "recipe": "visualgpt",
        "features": "bottom_up_adaptive",
    }
    rows = [{**row, "dataset": "coco_bpe"}]
    edited(params, "tables/v.yaml", title="t", columns=["CIDEr"], baseline="v", rows=rows)

    def result(*changes, stage="xe"):
        chosen = chosen_run(
            "v/v", *changes, stage=stage, params=params, scale="scenes", inputs=tmp_path / "in"
        )
        needed = missing_files(chosen.plan, single_jobs(chosen))
        missing = {each.path: each.named_by for each in needed if each.how != "hub"}
        return single_job(chosen).inputs, missing

    inputs, missing = result()
    (weights,) = inputs["weights"]
    assert Path(weights).name == "scenes.language_model.safetensors" and not missing
    inputs, missing = result("model.weights=gpt2/model.safetensors")
    assert inputs["weights"] == [str(tmp_path / "in/gpt2/model.safetensors")] == list(missing)
    assert result("model.pretrained=false")[0]["weights"] == []
    assert "weights" not in result(stage="scst")[0]  # it begins with the first stage's weights
    missing = result("model.weights=language_model:photos")[1]
    assert missing and set(missing.values()) == {"language_models/photos.yaml"}


def test_what_a_row_needs_and_is_missing_is_one_sentence(monkeypatch, capsys, tmp_path):
    words = ["train", "--row", "tiny/transformer", "--params", str(PARAMS)]
    monkeypatch.chdir(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(train, "_snakemake", lambda *words: 1)
        assert "tiny/transformer" in refused_command(capsys, *words)
    monkeypatch.setattr(options, "SNAKEFILE", tmp_path / "Snakefile")
    assert str(tmp_path / "Snakefile") in refused_command(capsys, *words)


def test_snakemake_ends_with_the_command_that_waits_for_it(tmp_path):
    stand_in = tmp_path / "python"
    stand_in.write_text(
        "#!/bin/bash\ntrap 'touch ended; exit' TERM\ntouch started\nwhile :; do sleep 0.1; done\n"
    )
    stand_in.chmod(0o755)
    code = "import sys, types; from recap.cli import train\n"
    code += "train.sys = types.SimpleNamespace(executable=sys.argv[1])\n"
    code += "train._snakemake()"
    process = subprocess.Popen([sys.executable, "-c", code, str(stand_in)], cwd=tmp_path)
    while not (tmp_path / "started").exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.terminate()
    assert process.wait() == -signal.SIGTERM
    end = time.monotonic() + 30
    while not (tmp_path / "ended").exists():
        assert time.monotonic() < end
        time.sleep(0.05)
