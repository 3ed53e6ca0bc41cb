"""Feature stores: data sets over the same pictures share them,
and a store serves the draws of all that read it."""

from pathlib import Path

from helpers.plans import PARAMS, edited, planned
from recap.plan.jobs import feature_files, plan_jobs
from recap.plan.run import Run
from recap.plan.run_jobs import stores
from recap.plan.specs import web_draws
from recap.plan.stores import used_stores, with_sources


def plan_of(*tables, scale="paper"):
    return planned(PARAMS, scale, tables)


def run_on(dataset, features):
    return Run(dataset, "full", features, "", "", 1, "xe")


def store_of(plan, features):
    (store,) = [store for store in used_stores(plan) if store.features == features]
    return store


def inputs_of_images(plan, features):
    jobs = plan_jobs(plan).of("used_images")
    (job,) = [job for job in jobs if job.wildcards["features"] == features]
    return job.inputs


def test_data_sets_whose_captions_alone_differ_have_the_same_pictures():
    plan = planned(PARAMS)
    assert {
        plan.settings.same_pictures(name) for name in ("coco", "coco_5", "coco_bpe", "coco_plain")
    } == {"coco"}
    assert (
        plan.settings.same_pictures("conceptual_bpe") == "conceptual"
        and plan.settings.same_pictures("iu_xray_bpe") == "iu_xray"
    )
    for name in ("coco_2017", "coco_test2014", "flickr30k", "scenes_small"):
        assert plan.settings.same_pictures(name) == name


def test_settings_of_a_vocabulary_ask_for_no_features_and_other_pictures_do(params):
    edited(params, "datasets/coco_5.yaml", vocabulary={"min_count": 9})
    assert planned(params).settings.same_pictures("coco_5") == "coco"
    edited(params, "datasets/coco_5.yaml", images=["elsewhere"])
    assert planned(params).settings.same_pictures("coco_5") == "coco_5"


def test_every_store_of_the_fusion_tables_is_made_once():
    plan = plan_of("fusion/t1", "fusion/t2", "fusion/readings")
    assert {"coco", "coco_5"} <= set(plan.datasets)
    used = used_stores(plan)
    assert {store.dataset for store in used} == {"coco"}
    assert len({store.features for store in used}) == len(used)
    assert not [file for file in feature_files(plan_jobs(plan)) if "/coco_5/" in file]
    one, other = (
        run_on(name, "grid_feats_x101_grid+grid_feats_x101_boxes") for name in ("coco", "coco_5")
    )
    assert stores(plan, one) == stores(plan, other)


def test_a_shared_store_has_the_images_of_all_that_read_it():
    plan = plan_of("fusion/t2", "fusion/readings")
    assert store_of(plan, "grid_feats_x101_boxes").readers == ("coco", "coco_5")
    inputs = inputs_of_images(plan, "grid_feats_x101_boxes")
    assert {Path(file).parents[2].name for file in inputs["subsets"]} == {"coco", "coco_5"}
    corpora = [plan.files.of("corpus", dataset=name)["corpus"] for name in ("coco", "coco_5")]
    assert inputs["corpora"] == corpora


def test_a_store_serves_the_subsets_of_all_runs_that_read_it_or_what_is_made_from_it():
    plan = plan_of("visualgpt/t1", scale=None)
    result = inputs_of_images(plan, "bottom_up_r101")["subsets"]
    assert {Path(file).parent.name for file in result} == {"pair_0.1", "pair_0.5", "pair_1"}
    assert len(result) == 3 * 4
    crops = plan_of("zodiac/t1", scale=None)
    (name,) = with_sources(crops, "clip_rn50_crops") - {"clip_rn50_crops"}
    assert crops.settings.features(name).has_boxes


def test_draws_from_web_pictures_are_those_of_all_runs_and_none_where_all_are_fetched():
    plan = plan_of("visualgpt/t2", "visualgpt/t8", "visualgpt/t1", scale=None)
    draws = web_draws(plan, "resources/conceptual/images/train/survivors.parquet")
    assert set(draws) == {"conceptual_bpe"}
    result = draws["conceptual_bpe"]
    assert (result.held_out, result.seed, result.survival) == (5000, 0, 0.6)
    assert {(draw.fraction, draw.unit) for draw in result.draws} == {
        (f, "pair") for f in (0.001, 0.005, 0.01)
    }
    assert len(result.draws) == 3 * 4
    assert web_draws(plan, "resources/conceptual/images/validation/survivors.parquet") == {}
