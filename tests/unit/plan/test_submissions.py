"""What COCO's server is sent is planned with the rows,
and what cannot be sent is refused before the first job."""

import pytest

from helpers import plans
from helpers.refusals import refused
from recap.core.errors import ConfigError
from recap.plan.jobs import data_files, feature_files, plan_jobs
from recap.plan.outside import missing_files
from recap.plan.resolve import resolve
from recap.plan.stores import used_stores
from recap.settings import Profile


def planned(scale="paper", table="xlan/t2", row=None):
    return resolve(Profile(name="mine", tables=[table], scale=scale), plans.PARAMS, row)


def test_an_ensemble_is_sent_as_one_with_the_features_of_the_test_pictures():
    plan = planned()
    result = plan.submissions
    assert [each.algorithm for each in result] == ["xlan_t2_xlan_r101", "xlan_t2_xtransformer_r101"]
    assert len(result[0].run.members) == 4
    assert (result[0].test.dataset, result[0].test.features) == (
        "coco_test2014",
        "bottom_up_adaptive_test2014",
    )
    assert result[0].shown("val2014").dataset == "coco"
    jobs = plan_jobs(plan)
    store = "results/mine/features/coco_test2014/bottom_up_adaptive_test2014.h5"
    assert store in feature_files(jobs)
    assert "results/mine/data/coco_test2014/corpus.parquet" in data_files(jobs)
    assert "results/mine/data/coco_test2014/vocabulary.json" not in data_files(jobs)
    needed = {each.path: each.named_by for each in missing_files(plan, jobs)}
    assert needed["resources/coco/test2014.zip"] == "datasets/coco_test2014.yaml"


def sent(plan):
    """Return the stores that hold all pictures of val2014, because their captions are sent."""
    return [store.features for store in used_stores(plan) if store.sent]


def test_features_are_made_of_all_pictures_of_val2014_that_are_sent():
    assert sent(planned()) == ["bottom_up_adaptive"]
    assert sent(planned(table="xlan/t3")) == []


def test_nothing_is_sent_at_scales_with_other_data_or_of_a_row_trained_alone():
    assert planned(scale="scenes").submissions == []
    assert planned(row="xlan/t2/xlan_r101").submissions == []


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("test: coco_test2014", "test: flickr8k", ["server.test", "'flickr8k'", "coco_pictures"]),
        ("dataset: coco,", "dataset: coco_test2014,", ["'coco_test2014'", "key `server"]),
        ("server: {test:", "server: {not_sent: {gone: why}, test:", ["server.not_sent", "'gone'"]),
    ],
)
def test_what_cannot_be_sent_is_refused(params, old, new, named):
    path = params / "xlan" / "tables" / "t2.yaml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with refused(ConfigError, "t2", *named):
        plans.planned(params, "paper", ["xlan/t2"])
