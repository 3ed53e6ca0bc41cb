"""Images, steps and the sizes of stores are known from the parameter files alone."""

from dataclasses import replace
from functools import cache

import pytest

from helpers.plans import PARAMS, edited, planned
from helpers.refusals import refused
from recap.plan.profiles import named_plan
from recap.plan.stores import used_stores
from recap.plan.workload import UnknownSize, Workload, image_share
from recap.settings import Subset


@cache
def workload_of(paper):
    return Workload(named_plan(PARAMS, paper))


@pytest.mark.parametrize(
    ("subset", "captions", "share"),
    [
        ({"fraction": 1.0}, 5, 1.0),
        ({"fraction": 0.2, "unit": "image"}, 5, 0.2),
        ({"fraction": 0.01, "unit": "pair"}, 1, 0.01),
        ({"fraction": 0.5, "unit": "pair"}, 5, 1 - 0.5**5),
    ],
)
def test_a_draw_of_pairs_touches_more_images_than_one_of_images(subset, captions, share):
    assert image_share(Subset(**subset), captions) == pytest.approx(share)


def test_small_draws_of_a_large_data_set_use_few_of_its_images():
    workload = workload_of("visualgpt")
    stores = {store.dataset: store for store in used_stores(workload.plan)}
    one_percent, seeds = 0.01 * 3_313_333, 4
    used = workload.used_images(stores["conceptual"]) - 5_000 - 15_840
    # draws of four seeds, the smaller ones within
    assert 0.98 * seeds * one_percent < used < seeds * one_percent
    assert workload.used_images(stores["coco"]) == 123_287  # a figure has all captions


def test_a_data_set_of_unknown_size_is_named_with_the_key_to_add(params):
    edited(params, "datasets/flickr8k.yaml", annotations="flickr8k/mine.json")
    workload = Workload(planned(params, scale="photos"))
    with refused(UnknownSize, "datasets/flickr8k.yaml", "`counts: {train: IMAGES"):
        workload.counts("flickr8k")


def test_streams_of_all_kinds_of_features_at_paper_scale_are_known():
    for paper in ("zodiac", "fusion", "visualgpt"):
        workload = workload_of(paper)
        for run in workload.plan.scored:
            inputs = workload.step_inputs(run)
            assert inputs.vectors >= 36 and inputs.ids, run.features


def test_a_store_that_others_are_made_from_holds_the_images_of_all_of_them():
    workload = workload_of("zodiac")
    stores = {store.features: store for store in used_stores(workload.plan)}
    crops = stores["clip_rn50_crops"]
    assert workload.used_images(stores["bottom_up_36"]) == workload.used_images(crops) == 123_287
    unread = replace(crops, trainings=())
    # validation and test alone: no run is trained on it
    assert workload.used_images(unread) == 10_000


@pytest.mark.parametrize(("epochs", "warned"), [(4, True), (10, False)])
def test_a_training_that_ends_within_its_warm_up_is_said_before_it_begins(
    params, capsys, epochs, warned
):
    """Five percent of 3,000 scenes are 8 steps an epoch."""
    xe = {"epochs": epochs, "images_per_batch": 20, "schedule": {"kind": "noam", "warmup": 80}}
    edited(params, "recap/recipes/scenes_short.yaml", xe=xe)
    Workload(planned(params, tables=["visualgpt/t4"])).warn_of_short_trainings()
    said = capsys.readouterr().err
    assert (
        "scenes/image_5/scenes_short/xe: the warm-up of 80 steps" in said
        and "training of 32" in said
    ) is warned
    assert said.count("\n") == warned  # once, not for every row


def test_where_the_size_of_a_data_set_is_unknown_nothing_is_said_of_its_trainings(params, capsys):
    edited(params, "datasets/flickr8k.yaml", counts=None)
    Workload(planned(params, scale="photos", tables=["visualgpt/t4"])).warn_of_short_trainings()
    assert capsys.readouterr().err == ""
