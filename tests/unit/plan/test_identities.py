"""What decides whether finished runs rerun is written down,
so that a change shows what it makes again."""

import json
from pathlib import Path

import pytest
from pydantic import PositiveInt

from recap.core.documents import differences
from recap.core.hashing import value_hash
from recap.plan.source import identities, keys_omitted_at_default
from recap.settings import CrossEntropy, Recipe
from recap.settings.base import Strict, omitted_at_default

ROOT = Path(__file__).resolve().parents[3]
GOLDEN = ROOT / "tests" / "golden" / "identities.json"
COMMAND = "recap config identities --write tests/golden/identities.json"
STAGE = {"epochs": 1, "learning_rate": 0.1}


@pytest.mark.parametrize(
    "parts", [("parameters", "neutral"), ("source", "metrics")], ids=["settings", "code of jobs"]
)
def test_what_decides_runs_is_that_of_the_golden_file(parts):
    found, golden = identities(ROOT / "params"), json.loads(GOLDEN.read_text())
    assert golden.keys() == found.keys()
    changed = differences(*({part: each[part] for part in parts} for each in (golden, found)))
    assert not changed, (
        f"changed: {changed}. Rewriting changes no settings; if they are meant to say something "
        f"else, or code must be another: `{COMMAND}`, and a line in CHANGELOG.md that says "
        "which runs are made again"
    )


def test_an_optional_key_is_in_no_hash_while_at_its_default():
    class Before(Strict):
        width: PositiveInt = 8

    class After(Before):
        depth: PositiveInt = omitted_at_default(2, description="layers")

    assert value_hash(After(depth=2).model_dump(mode="json")) == value_hash(
        Before().model_dump(mode="json")
    )
    assert After(depth=3).model_dump(mode="json") == {"width": 8, "depth": 3}
    assert After.model_validate(After().model_dump(mode="json")).depth == 2
    assert keys_omitted_at_default() | {"After.depth": 2} == keys_omitted_at_default()
    assert keys_omitted_at_default()["Recipe.processes"] == 1


def test_how_a_run_is_computed_is_no_part_of_what_decides_it():
    plain = Recipe(xe=CrossEntropy(**STAGE))
    elsewhere = Recipe(
        xe=CrossEntropy(**STAGE), execution={"threads": 8, "device": "cuda", "compile": True}
    )
    assert plain.model_dump(mode="json") == elsewhere.model_dump(mode="json")
