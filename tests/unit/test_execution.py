"""How a job is computed is apart from what is computed; the old places of its keys are refused with the new one."""

import json
from pathlib import Path

import pytest
from workflow.specs import SpecText

from recap.core.config import Execution, Profile, Recipe
from recap.core.errors import ConfigError
from recap.core.params import validate

STAGE = {"epochs": 1, "learning_rate": 0.1}


def test_the_profile_counts_before_the_recipe_and_the_recipe_before_the_defaults():
    recipe, profile = Execution(threads=4, features_in_memory=True), Execution(threads=1, device="cpu")
    assert profile.over(recipe) == Execution(threads=1, device="cpu", features_in_memory=True)
    assert Execution().over(recipe) == recipe


@pytest.mark.parametrize(
    "old, new",
    [
        ({"resident_features": True}, "features_in_memory: true"),
        ({"recompute": True}, "activation_checkpointing: true"),
        ({"compile": False}, "compile: false"),
        ({"checkpoint_minutes": 2}, "checkpoint_minutes: 2"),
    ],
)
def test_an_old_key_of_a_recipe_is_refused_with_its_new_place(old, new):
    (key,) = old
    with pytest.raises(ConfigError) as refusal:
        validate(Recipe, {"xe": {**STAGE, **old}}, "recipes/mine.yaml")
    assert str(refusal.value) == (
        f"recipes/mine.yaml: xe: `{key}` went to the key `execution` of the profile or recipe: "
        f"write execution: {{{new}}}"
    )


def test_an_old_key_of_a_profile_is_refused_with_its_new_place():
    profile = {"name": "mine", "tables": ["demo"], "seeds": [1], "threads": 4}
    with pytest.raises(ConfigError, match=r"`threads` went to .* write execution: \{threads: 4\}"):
        validate(Profile, profile, "params/mine.yaml")


def test_a_spec_is_a_parameter_and_a_file_that_is_written_once(tmp_path):
    text = SpecText.written({"b": 1, "a": [2]}, tmp_path)
    assert repr(text) == repr('{"a": [2], "b": 1}')
    assert json.loads(Path(text.file).read_text()) == {"a": [2], "b": 1}
    (file,) = tmp_path.iterdir()
    written = file.stat().st_mtime_ns
    assert SpecText.written({"a": [2], "b": 1}, tmp_path).file == text.file
    assert file.stat().st_mtime_ns == written
