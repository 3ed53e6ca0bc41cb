"""How a job is computed is apart from what is computed."""

import json
from pathlib import Path

from workflow.wiring import SpecText

from recap.settings import Execution, ExecutionFile


def test_the_profile_counts_before_the_recipe_and_the_recipe_before_the_defaults():
    recipe, profile = (
        Execution(threads=4, tf32=False),
        Execution(threads=1, device="cpu"),
    )
    assert profile.over(recipe) == Execution(threads=1, device="cpu", tf32=False)
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
