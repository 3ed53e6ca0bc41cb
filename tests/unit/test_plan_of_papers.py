"""How many trainings the tables of a paper need at its scale, each setting trained once."""

import re
from pathlib import Path

import pytest

from recap.plan.run_plan import RunPlan
from recap.settings import Profile
from recap.settings.params import load_profile, names, read_mapping

PARAMS = Path(__file__).resolve().parents[2] / "params"


PROFILES = sorted(path.stem for path in PARAMS.glob("*.yaml") if path.stem != "titles")
FEATURES = re.compile(r"features/\{?([\w,]+)\}?\.yaml")


def test_the_features_that_a_profile_says_it_reads_are_those_of_its_tables():
    said = {}
    for name in PROFILES:
        text = (PARAMS / f"{name}.yaml").read_text()
        said[name] = {each for found in FEATURES.findall(text) for each in found.split(",")}
    assert sum(map(bool, said.values())) == 5  # the papers' own profiles
    for name in filter(said.get, said):
        plan = RunPlan(load_profile(read_mapping(PARAMS / f"{name}.yaml"), name), PARAMS)
        named = {each for section, each in plan.names() if section == "features"}
        boxes = {plan.spec("features", each).get("boxes") for each in named}
        assert said[name] <= named | boxes, name


def test_the_tables_of_visual_gpt_train_equal_settings_once():
    """192 + 120 + 4 + 4 + 96 + 96 stage runs for Tables 1 to 5 and 8, and 40 + 48 + 48 for Figures 7 to 9."""
    tables = [name for name in names(PARAMS, "tables") if name.startswith("visualgpt/t")]
    assert len(RunPlan(Profile(name="p", tables=tables, scale="paper"), PARAMS).trained()) == 512
    figures = names(PARAMS, "figures")
    drawn = Profile(name="p", tables=tables, figures=[f for f in figures if f.startswith("visualgpt/")], scale="paper")
    assert len(RunPlan(drawn, PARAMS).trained()) == 648


@pytest.mark.parametrize(
    ("profile", "trained"),
    [
        # Table I: 7 extractors x 3 models x 5 seeds; II: 20 rows; III: 2 models x 5 seeds of its own; IV: 7 rows
        ("zodiac", 142),
        ("fusion", 12),
        ("acf", 22),
    ],
)
def test_the_tables_of_a_paper_train_equal_settings_once(profile, trained):
    plan = RunPlan(load_profile(read_mapping(PARAMS / f"{profile}.yaml"), profile), PARAMS)
    assert len(plan.trained()) == trained
