"""Tables of readings: at every scale they compare things that differ.

Choices are among rows that go together.
"""

import pytest

from helpers.plans import PARAMS, edited, planned
from helpers.refusals import refused
from recap.core.errors import ConfigError
from recap.plan.specs import selection_spec
from recap.settings.params import names

pytestmark = pytest.mark.seconds

SLOW = pytest.mark.slow

READINGS = [name for name in names(PARAMS, "tables") if name.endswith("/readings")]


def shipped(table, scale):
    return planned(PARAMS, scale, [table])


@pytest.mark.parametrize(
    "scale", ["scenes", pytest.param("paper", marks=SLOW), pytest.param("photos", marks=SLOW)]
)
@pytest.mark.parametrize("table", READINGS)
def test_no_two_rows_are_the_same_run(table, scale):
    plan = shipped(table, scale)
    runs = {}
    for row in plan.tables[table].rows:
        what = (
            plan.settings.get("models", row.model),
            plan.settings.get("recipes", row.recipe),
            row.dataset,
            row.features,
        )
        key = repr(
            [each.model_dump(mode="json") if hasattr(each, "model_dump") else each for each in what]
        )
        assert key not in runs, f"{row.id} and {runs[key]} are the same at scale {scale}"
        runs[key] = row.id


def test_what_only_decodes_otherwise_is_not_trained_again():
    plan = shipped("xlan/readings", "paper")
    scored = {run.recipe: run for run in plan.scored if run.seed == 1 and run.model == "xlan"}
    (older,) = (
        run for name, run in scored.items() if "set_aside" in name and "dropout" not in name
    )
    assert plan.training_of(older) == plan.training_of(scored["xlan"]) != older
    dropout = next(run for name, run in scored.items() if "dropout=true" in name)
    assert plan.training_of(dropout) == dropout
    assert plan.first_stage(dropout) == plan.first_stage(scored["xlan"])


def test_a_choice_is_among_the_rows_that_a_part_and_a_scale_have():
    table = shipped("visualgpt/t1_f01", "scenes").tables["visualgpt/t1_f01"]
    over = {each.id: each.over for each in table.selections}["visualgpt_chosen"]
    assert over == ["visualgpt_tau0", "visualgpt_tau03"]
    plan = shipped("visualgpt/t1_f01", "paper")
    spec = selection_spec(plan, "visualgpt/t1_f01")
    assert set(spec.trainings) == {name for each in table.selections for name in each.over}
    trained = {run.path for run in plan.trained}
    # none more
    assert {path for by_seed in spec.trainings.values() for path in by_seed.values()} <= trained


def test_rows_whose_validations_differ_in_kind_are_no_choice(params):
    recipes = {"a": "xlan", "b": {"base": "xlan", "scst": {"validation_beam": 5}}}
    rows = [{"id": name, "label": name, "recipe": recipe} for name, recipe in recipes.items()]
    defaults = {"dataset": "coco", "features": "bottom_up_36", "model": "transformer"}
    chosen = [{"id": "c", "label": "C", "over": ["a", "b"]}]
    keys = {"title": "T", "columns": ["CIDEr"], "baseline": "a", "defaults": defaults, "rows": rows}
    edited(params, "mine/tables/t.yaml", **keys, selections=chosen)
    with refused(ConfigError, "mine/t", "'c'", "'a'", "'b'"):
        planned(params, None, ["mine/t"])
    edited(
        params,
        "mine/tables/t.yaml",
        **keys,
        selections=[{"id": "c", "label": "C", "over": ["a", "x"]}],
    )
    with refused(ConfigError, "'x'"):
        planned(params, None, ["mine/t"])
