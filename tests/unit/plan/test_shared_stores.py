"""Data sets over the same pictures share feature stores: a store's identity is the extractor and the images."""

from pathlib import Path

from helpers.plans import PARAMS, edited, planned
from recap.plan.paths import Paths, corpora_of, feature_files, readers, store_folder, used_stores, used_subsets
from recap.plan.profiles import load_plan
from recap.plan.run import Run


def paths_of(*tables):
    return Paths(load_plan({"name": "x", "params_dir": str(PARAMS), "tables": list(tables), "scale": "paper"}))


def run_on(dataset, features):
    return Run(dataset, "full", features, "", "", 1, "xe")


def test_data_sets_whose_captions_alone_differ_have_the_same_pictures():
    plan = planned(PARAMS)
    assert {plan.same_pictures(name) for name in ("coco", "coco_5", "coco_bpe", "coco_plain")} == {"coco"}
    assert plan.same_pictures("conceptual_bpe") == "conceptual" and plan.same_pictures("iu_xray_bpe") == "iu_xray"
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
    one, other = (run_on(name, "grid_feats_x101_grid+grid_feats_x101_boxes") for name in ("coco", "coco_5"))
    assert paths.features(one) == paths.features(other)
    assert paths.extractors(one) == paths.extractors(other)
    assert paths.vocabulary(one) != paths.vocabulary(other)


def test_a_shared_store_has_the_images_of_all_that_read_it():
    paths = paths_of("fusion/t2", "fusion/readings")
    store = run_on("coco", "grid_feats_x101_boxes")
    assert readers(paths.plan, "coco", store.features) == ["coco", "coco_5"]
    subsets = used_subsets(paths, store)
    assert {Path(file).parents[2].name for file in subsets} == {"coco", "coco_5"}
    corpora = [paths.of_dataset(name, "corpus.parquet") for name in ("coco", "coco_5")]
    assert corpora_of(paths, store, subsets) == corpora


def test_a_store_is_made_from_a_data_set_of_the_plan_where_the_folder_has_the_name_of_another():
    paths = paths_of("visualgpt/t1")
    assert "coco" not in paths.plan.datasets()
    assert readers(paths.plan, "coco", "bottom_up_r101") == ["coco_bpe"]
    assert corpora_of(paths, run_on("coco", "bottom_up_r101"), []) == [paths.of_dataset("coco_bpe", "corpus.parquet")]


def test_features_that_learn_from_captions_belong_to_one_data_set():
    plan = paths_of("visualgpt/t1").plan
    assert store_folder(plan, "iu_xray_bpe", "mobilenetv2_xray_tuned") == "iu_xray_bpe"
    assert store_folder(plan, "iu_xray_bpe", "mobilenetv2_xray") == "iu_xray"
