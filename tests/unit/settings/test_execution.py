"""How a job is computed is apart from what is computed."""

import json
from pathlib import Path

import pytest
from workflow.profile import SpecText, write_beside_specs

from helpers.plans import PARAMS, planned
from recap.cli import main
from recap.core.log import log
from recap.plan.jobs import evaluation_spec, run_spec
from recap.settings import Execution, ExecutionFile


def test_the_profile_counts_before_the_recipe_and_the_recipe_before_the_defaults():
    recipe, profile = Execution(threads=4, features_in_memory=True), Execution(threads=1, device="cpu")
    assert profile.over(recipe) == Execution(threads=1, device="cpu", features_in_memory=True)
    assert Execution().over(recipe) == recipe
    assert ExecutionFile(labels={"a": "A"}).model_dump() == Execution().model_dump()


def test_a_spec_is_a_parameter_and_a_file_that_is_written_once(tmp_path):
    text = SpecText.written({"b": 1, "a": [2]}, tmp_path)
    assert repr(text) == repr('{"a": [2], "b": 1}')
    assert json.loads(Path(text.file).read_text()) == {"a": [2], "b": 1}
    (file,) = tmp_path.iterdir()
    written = file.stat().st_mtime_ns
    assert SpecText.written({"a": [2], "b": 1}, tmp_path).file == text.file
    assert file.stat().st_mtime_ns == written


@pytest.mark.parametrize(
    ("job", "function"), [("train", "training.run.train"), ("evaluate", "evaluation.job.evaluate")]
)
def test_a_job_finds_the_label_of_its_run_beside_how_it_is_computed(tmp_path, monkeypatch, capsys, job, function):
    plan = planned(PARAMS, tables=["recap/demo"], seeds=[1])
    write_beside_specs(plan, tmp_path)
    run = next(run for run in plan.scored() if run.model.startswith("acf"))
    file = tmp_path / "execution" / f"{run.recipe}.yaml"
    monkeypatch.setattr(f"recap.{function}", lambda **_: say(run))
    files = {name: tmp_path / name for name in ("corpus", "vocabulary", "features")}
    words = [word for name, path in files.items() for word in (f"--{name}", str(path))]
    if job == "train":
        spec = run_spec(plan, run).model_dump_json()
        words += ["--subset", "subset", "--state", "state", "--out", str(tmp_path / "out")]
    else:
        spec = evaluation_spec(plan, run.recipe).model_dump_json()
        words += ["--model", "model", "--out", str(tmp_path / "scores" / run.path)]
    main([job, "--spec", spec, "--execution", str(file), *words])
    assert capsys.readouterr().err == "ACF seed 1 scst: CIDEr 1\n"


def say(run):
    log.info(f"{run.model}@{run.recipe} seed 1 scst: CIDEr 1")
