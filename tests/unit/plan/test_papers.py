"""How many trainings the tables of a paper need at its scale, each setting trained once."""

import re
from pathlib import Path

import pytest

from recap.plan.run_plan import RunPlan
from recap.settings import Profile
from recap.settings.params import load_profiles, names, profiles, read_mapping

PARAMS = Path(__file__).resolve().parents[3] / "params"


FEATURES = re.compile(r"features/\{?([\w,]+)\}?\.yaml")
PAPERS = {path.parent.name: path for path in profiles(PARAMS) if path.parent != PARAMS}


def at_paper_scale(paper):
    (profile,) = (each for each in load_profiles(PAPERS[paper]) if each.scale == "paper")
    return RunPlan(profile, PARAMS)


@pytest.mark.parametrize("paper", PAPERS)
def test_the_features_that_a_profile_says_it_reads_are_those_of_its_tables(paper):
    text = PAPERS[paper].read_text()
    said = {each for found in FEATURES.findall(text) for each in found.split(",")}
    plan = at_paper_scale(paper)
    named = {each for section, each in plan.names() if section == "features"}
    boxes = {plan.spec("features", each).get("boxes") for each in named}
    assert said and said <= named | boxes


@pytest.mark.parametrize("paper", PAPERS)
def test_results_of_a_paper_are_in_a_folder_for_each_scale(paper):
    names = [each.name for each in load_profiles(PAPERS[paper])]
    assert names == [f"{paper}_{key}" for key in read_mapping(PAPERS[paper])["scales"]]
    assert len(set(names)) == len(names)


def test_the_tables_of_visual_gpt_train_equal_settings_once():
    """192 + 120 + 4 + 4 + 96 + 96 stage runs for Tables 1 to 5 and 8, and 40 + 48 + 48 for Figures 7 to 9."""
    tables = [name for name in names(PARAMS, "tables") if name.startswith("visualgpt/t")]
    assert len(RunPlan(Profile(name="p", tables=tables, scale="paper"), PARAMS).trained()) == 512
    figures = names(PARAMS, "figures")
    drawn = Profile(name="p", tables=tables, figures=[f for f in figures if f.startswith("visualgpt/")], scale="paper")
    assert len(RunPlan(drawn, PARAMS).trained()) == 648


@pytest.mark.parametrize(
    ("paper", "trained"),
    [
        # Table I: 7 extractors x 3 models x 5 seeds; II: 20 rows; III: 2 models x 5 seeds of its own; IV: 7 rows;
        # readings: 10 settings of their own, 3 seeds
        ("zodiac", 172),
        ("fusion", 44),
        ("acf", 60),
    ],
)
def test_the_tables_of_a_paper_train_equal_settings_once(paper, trained):
    assert len(at_paper_scale(paper).trained()) == trained
