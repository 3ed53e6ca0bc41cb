"""Feature stores: data sets over the same pictures share them,
and a store serves the draws of all that read it."""

from pathlib import Path

from helpers.plans import PARAMS, edited, planned
from recap.plan.paths import (
    EXTRACTOR,
    Paths,
    corpora_of,
    feature_files,
    readers,
    sources,
    used_stores,
    used_subsets,
    web_draws,
)
from recap.plan.run import Run


def paths_of(*tables, scale="paper"):
    return Paths(planned(PARAMS, scale, tables))


def run_on(dataset, features):
    return Run(dataset, "full", features, "", "", 1, "xe")


def test_data_sets_whose_captions_alone_differ_have_the_same_pictures():
    plan = planned(PARAMS)
    assert {plan.same_pictures(name) for name in ("coco", "coco_5", "coco_bpe", "coco_plain")} == {
        "coco"
    }
    assert (
        plan.same_pictures("conceptual_bpe") == "conceptual"
        and plan.same_pictures("iu_xray_bpe") == "iu_xray"
    )
    for name in ("coco_2017", "coco_test2014", "flickr30k", "scenes_small"):
        assert plan.same_pictures(name) == name


def test_settings_of_a_vocabulary_ask_for_no_features_and_other_pictures_do(params):
    edited(params, "datasets/coco_5.yaml", vocabulary={"min_count": 9})
    assert planned(params).same_pictures("coco_5") == "coco"
    edited(params, "datasets/coco_5.yaml", images=["elsewhere"])
    assert planned(params).same_pictures("coco_5") == "coco_5"


def test_every_store_of_the_fusion_tables_is_made_once():
    paths = paths_of("fusion/t1", "fusion/t2", "fusion/readings")
    assert {"coco", "coco_5"} <= set(paths.plan.datasets())
    stores = used_stores(paths.plan)
    assert {run.dataset for run in stores} == {"coco"}
    assert len({run.features for run in stores}) == len(stores)
    assert not [file for file in feature_files(paths) if "/coco_5/" in file]
    one, other = (
        run_on(name, "grid_feats_x101_grid+grid_feats_x101_boxes") for name in ("coco", "coco_5")
    )
    assert paths.features(one) == paths.features(other)
    assert paths.features(one, EXTRACTOR) == paths.features(other, EXTRACTOR)


def test_a_shared_store_has_the_images_of_all_that_read_it():
    paths = paths_of("fusion/t2", "fusion/readings")
    store = run_on("coco", "grid_feats_x101_boxes")
    assert readers(paths.plan, "coco") == ["coco", "coco_5"]
    subsets = used_subsets(paths, store)
    assert {Path(file).parents[2].name for file in subsets} == {"coco", "coco_5"}
    corpora = [paths.of_dataset(name, "corpus.parquet") for name in ("coco", "coco_5")]
    assert corpora_of(paths, store, subsets) == corpora


def test_a_store_serves_the_subsets_of_all_runs_that_read_it_or_what_is_made_from_it():
    paths = paths_of("visualgpt/t1", scale=None)
    result = used_subsets(paths, run_on("coco", "bottom_up_r101"))
    assert {Path(file).parent.name for file in result} == {"pair_0.1", "pair_0.5", "pair_1"}
    assert len(result) == 3 * 4
    assert used_subsets(paths, run_on("conceptual", "bottom_up_r101")) == []
    crops = paths_of("zodiac/t1", scale=None).plan
    (name,) = {name for name in sources(crops, "clip_rn50_crops") if name != "clip_rn50_crops"}
    assert crops.get("features", name).has_boxes


def test_draws_from_web_pictures_are_those_of_all_runs_and_none_where_all_are_fetched():
    paths = paths_of("visualgpt/t2", "visualgpt/t8", "visualgpt/t1", scale=None)
    draws = web_draws(paths, "resources/conceptual/images/train/survivors.parquet")
    assert set(draws) == {"conceptual_bpe"}
    result = draws["conceptual_bpe"]
    assert (result["held_out"], result["seed"], result["survival"]) == (5000, 0, 0.6)
    assert {(draw["fraction"], draw["unit"]) for draw in result["draws"]} == {
        (f, "pair") for f in (0.001, 0.005, 0.01)
    }
    assert len(result["draws"]) == 3 * 4
    assert web_draws(paths, "resources/conceptual/images/validation/survivors.parquet") == {}
