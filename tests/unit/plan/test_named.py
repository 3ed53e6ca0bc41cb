"""Plans by the name of a paper."""

from helpers.plans import PARAMS
from helpers.refusals import refused
from recap.core.errors import UnknownName
from recap.plan.named import named_plan


def test_a_paper_is_planned_at_full_scale_unless_another_is_named():
    assert named_plan(PARAMS, "fusion").profile.name == "fusion_paper"
    small = named_plan(PARAMS, "fusion", scale="photos", inputs="elsewhere")
    assert (small.profile.name, small.profile.inputs) == ("fusion_photos", "elsewhere")


def test_a_profile_is_named_by_its_file():
    assert named_plan(PARAMS, str(PARAMS / "demo.yaml")).profile.scale == "scenes"


def test_a_misspelt_paper_gets_the_nearest():
    with refused(UnknownName, "fusoin", "did you mean 'fusion'"):
        named_plan(PARAMS, "fusoin")
