"""Plans by the name of a paper."""

from helpers.plans import PARAMS
from helpers.refusals import refused
from recap.core.errors import UnknownName
from recap.plan.profiles import named_plan


def test_a_paper_is_planned_at_full_scale_unless_another_is_named():
    assert named_plan(PARAMS, "fusion").profile.name == "fusion_paper"
    small = named_plan(PARAMS, "fusion", scale="photos", inputs="elsewhere")
    assert (small.profile.name, small.profile.inputs) == ("fusion_photos", "elsewhere")


def test_a_profile_is_named_by_its_file():
    assert named_plan(PARAMS, str(PARAMS / "demo.yaml")).profile.scale == "scenes"


def test_a_misspelt_paper_gets_the_nearest():
    with refused(UnknownName, "fusoin", "did you mean 'fusion'"):
        named_plan(PARAMS, "fusoin")


def test_the_resolved_profile_as_a_file_of_json_is_the_same_plan(tmp_path):
    plan = named_plan(PARAMS, "fusion", scale="photos")
    (tmp_path / "profile.json").write_text(plan.profile.model_dump_json())
    again = named_plan(PARAMS, str(tmp_path / "profile.json"))
    assert again.profile == plan.profile and again.scored() == plan.scored() and again.seeds == plan.seeds
