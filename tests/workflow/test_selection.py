"""A table that chooses a row on validation: the record, the line in the table, and no training or evaluation more."""

import json

import pytest
import yaml

from helpers.tiny_workspace import Workspace

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    workspace = Workspace(tmp_path_factory.mktemp("selection"))
    path = workspace.folder / "params" / "tables" / "tiny.yaml"
    table = yaml.safe_load(path.read_text())
    zodiac = next(row for row in table["rows"] if row["id"] == "zodiac")
    recipe = {"base": "other", "xe": {"schedule": {"kind": "constant", "learning_rate": 1.0e-6}}}
    table |= {"figures": [], "rows": [zodiac, {**zodiac, "id": "slow", "label": "Slow", "recipe": recipe}]}
    table |= {"baseline": "zodiac", "selections": [{"id": "best", "label": "Chosen", "over": ["zodiac", "slow"]}]}
    path.write_text(yaml.safe_dump(table))
    planned = workspace.planned()
    assert (planned["train_xe"], planned["evaluate"], planned["select"]) == (2, 2, 1)
    done = workspace.snakemake()
    assert done.returncode == 0, done.stderr[-6000:]
    return workspace


@pytest.mark.timeout(900)
def test_the_record_has_what_the_trainings_recorded_and_the_table_shows_the_choice(finished):
    (choice,) = json.loads((finished.folder / "results/tiny/statistics/selections/tiny.json").read_text())
    scores = {each["row"]: each["validation_cider_d"]["1"] for each in choice["candidates"]}
    recorded = sorted(
        json.loads(file.read_text())["best_val_cider_d"]
        for file in (finished.folder / "results" / "tiny" / "runs").rglob("training.json")
    )
    assert sorted(scores.values()) == recorded
    assert choice["chosen"] == max(scores, key=scores.get)
    label = next(each["label"] for each in choice["candidates"] if each["row"] == choice["chosen"])
    assert f"Chosen: {label}" in (finished.folder / "reports/tiny/tables/tiny.md").read_text()


@pytest.mark.timeout(900)
def test_nothing_is_done_twice_and_a_lost_record_is_made_again(finished):
    assert finished.planned() == {}
    record = finished.folder / "results/tiny/statistics/selections/tiny.json"
    record.rename(finished.folder / "aside")
    assert finished.planned()["select"] == 1
    (finished.folder / "aside").rename(record)
    assert finished.planned() == {}
