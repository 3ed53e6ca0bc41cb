"""Plans of papers by name: at which scale, and how many trainings they need, each setting once."""

from collections import Counter

import pytest

from helpers.plans import PARAMS, planned
from recap.plan.profiles import named_plan
from recap.settings.params import names


def test_the_tables_of_visual_gpt_train_equal_settings_once():
    """192 + 120 + 4 + 4 + 96 + 96 stage runs for Tables 1 to 5 and 8,
    and 40 + 48 + 48 for Figures 7 to 9."""
    tables = [name for name in names(PARAMS, "tables") if name.startswith("visualgpt/t")]
    figures = [name for name in names(PARAMS, "figures") if name.startswith("visualgpt/")]
    assert len(planned(PARAMS, "paper", tables, figures=figures).trained) == 648


@pytest.mark.parametrize(
    ("paper", "trained"),
    [
        # Table I: 7 extractors x 3 models x 5 seeds; II: 20 rows; III: 2 models x 5 seeds of its
        # own; IV: 7 rows;
        # readings: 10 settings of their own, 3 seeds
        ("zodiac", 172),
        ("fusion", 44),
        ("acf", 60),
    ],
)
def test_the_tables_of_a_paper_train_equal_settings_once(paper, trained):
    assert len(named_plan(PARAMS, paper).trained) == trained


def test_a_paper_is_planned_at_full_scale_unless_another_is_named():
    assert named_plan(PARAMS, "fusion").profile.name == "fusion_paper"
    small = named_plan(PARAMS, "fusion", scale="photos", inputs="elsewhere")
    assert (small.profile.name, small.profile.inputs) == ("fusion_photos", "elsewhere")


def test_the_resolved_profile_as_a_file_of_json_is_the_same_plan(tmp_path):
    plan = named_plan(PARAMS, "fusion", scale="photos")
    (tmp_path / "profile.json").write_text(plan.profile.model_dump_json())
    again = named_plan(PARAMS, str(tmp_path / "profile.json"))
    assert (
        again.profile == plan.profile and again.scored == plan.scored and again.seeds == plan.seeds
    )


def test_nine_models_are_trained_alike_but_for_the_rates_that_their_pilots_chose():
    plan = named_plan(PARAMS, "nine")
    assert Counter(run.stage for run in plan.trained) == {"xe": 27, "scst": 27}
    equal = [plan.settings.recipe(run.recipe).model_dump() for run in plan.scored]
    for recipe in equal:
        del recipe["xe"]["schedule"]["learning_rate"], recipe["scst"]["schedule"]["learning_rate"]
    assert all(recipe == equal[0] for recipe in equal)


def test_second_stages_of_pilots_begin_from_their_first_stages():
    plan = named_plan(PARAMS, "nine_tuning")
    assert Counter(run.stage for run in plan.trained) == {"xe": 27, "scst": 18}
    assert not {run.seed for run in plan.trained} & {
        run.seed for run in named_plan(PARAMS, "nine").trained
    }
