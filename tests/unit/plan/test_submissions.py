"""What COCO's server is sent is planned with the rows,
and what cannot be sent is refused before the first job."""

from dataclasses import replace

import pytest

from helpers import plans
from helpers.refusals import refused
from recap.core.errors import ConfigError
from recap.plan.outside import missing_files
from recap.plan.paths import Paths, data_files, feature_files, sent_parts
from recap.plan.run import Run
from recap.plan.run_plan import RunPlan
from recap.settings import Profile


def planned(scale="paper", table="xlan/t2", row=None):
    return RunPlan(Profile(name="mine", tables=[table], scale=scale), plans.PARAMS, row)


def test_an_ensemble_is_sent_as_one_with_the_features_of_the_test_pictures():
    plan = planned()
    result = plan.submissions()
    assert [each.algorithm for each in result] == ["xlan_t2_xlan_r101", "xlan_t2_xtransformer_r101"]
    assert len(result[0].run.members) == 4
    assert (result[0].test.dataset, result[0].test.features) == (
        "coco_test2014",
        "bottom_up_adaptive_test2014",
    )
    assert result[0].shown("val2014").dataset == "coco"
    paths = Paths(plan)
    assert "results/mine/features/coco_test2014/bottom_up_adaptive_test2014.h5" in feature_files(
        paths
    )
    assert "results/mine/data/coco_test2014/corpus.parquet" in data_files(paths)
    assert "results/mine/data/coco_test2014/vocabulary.json" not in data_files(paths)
    needed = {each.path: each.named_by for each in missing_files(paths)}
    assert needed["resources/coco/test2014.zip"] == "datasets/coco_test2014.yaml"


def test_features_are_made_of_all_pictures_of_val2014_that_are_sent():
    paths = Paths(planned())
    store = Run("coco", "", "bottom_up_adaptive", "", "", 0, "")
    assert sent_parts(paths, store) == ["val2014"]
    assert sent_parts(Paths(planned(table="xlan/t3")), store) == []
    assert sent_parts(paths, replace(store, features="oscar")) == []
    assert (
        sent_parts(
            paths, replace(store, dataset="coco_test2014", features="bottom_up_adaptive_test2014")
        )
        == []
    )


def test_nothing_is_sent_at_scales_with_other_data_or_of_a_row_trained_alone():
    assert planned(scale="scenes").submissions() == []
    assert planned(row="xlan/t2/xlan_r101").submissions() == []


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
