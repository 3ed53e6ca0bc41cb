"""A paper's parameters are one folder: its names are found,
its scales are merged, its profile has every scale."""

import pytest

from helpers.plans import edited, planned
from helpers.refusals import refused
from recap.core.errors import ConfigError
from recap.plan.run import row_setting
from recap.settings.params import load_named, load_profile, names, refuse_other_scale

PROFILE = {
    "name": "mine",
    "inputs": "here",
    "scales": {
        "photos": {"tables": ["mine/t"], "execution": {"threads": 2}},
        "paper": {"tables": ["mine/u"]},
    },
}


def test_a_group_adds_one_folder_and_edits_no_file(params):
    edited(params, "mine/models/wide.yaml", base="transformer", d_feed_forward=4096)
    edited(params, "mine/recipes/long.yaml", base="xlan", xe={"epochs": 99})
    row = {
        "id": "r",
        "label": "R",
        "model": "wide",
        "recipe": "long",
        "dataset": "coco",
        "features": "bottom_up_36",
    }
    rows = [row, {**row, "id": "few", "subset": "pair_5"}]
    keys = {"title": "T", "columns": ["CIDEr"], "baseline": "r", "defaults": {"stage": "xe"}}
    edited(params, "mine/tables/t.yaml", **keys, rows=rows)
    edited(params, "mine/scales/photos.yaml", tables={"mine/t": {"seeds": [4]}})
    plan = planned(params, "photos", ["mine/t"])
    assert plan.seeds == {"mine/t": [4]}
    assert {row_setting(vars(run)) for run in plan.scored} == {
        "flickr8k/full/mobilenetv2_grid/wide@photos",
        "flickr8k/pair_5/mobilenetv2_grid/wide@photos_pairs_5",
    }
    assert (
        plan.settings.variant("recipes", "long").layers(plan.params)[-1][0]
        == "params/mine/recipes/long.yaml"
    )
    assert plan.source_of_seeds["mine/t"] == "params/mine/scales/photos.yaml: tables.mine/t.seeds"
    assert {"wide", "transformer"} < set(names(params, "models")) and "mine/t" in names(
        params, "tables"
    )


@pytest.mark.parametrize("folder", ["", "mine/"])
def test_two_files_of_one_name_are_refused_with_both(params, folder):
    edited(params, f"{folder}models/xlan.yaml", kind="xlan")
    first, other = sorted([f"params/{folder}models/xlan.yaml", "params/xlan/models/xlan.yaml"])
    with refused(ConfigError, first, other):
        load_named(params, "models", "xlan")


def test_an_entry_of_a_scale_that_two_files_have_is_refused_with_both(params):
    edited(params, "mine/scales/photos.yaml", models={"xlan": {"d_model": 8}})
    with refused(
        ConfigError,
        "params/mine/scales/photos.yaml",
        "params/xlan/scales/photos.yaml",
        "'models.xlan'",
    ):
        planned(params, "photos")


def test_a_mistake_in_one_file_of_a_scale_names_that_file(params):
    edited(params, "mine/scales/photos.yaml", tables={"mine/t": {"seed": [4]}})
    with refused(ConfigError, "params/mine/scales/photos.yaml", "'tables.mine/t.seed'"):
        planned(params, "photos")
    edited(params, "mine/scales/nano.yaml", seeds=[1])
    with refused(ConfigError, "params/scales/nano.yaml", "'opening'"):
        planned(params, "nano")


def test_a_profile_is_that_of_its_scale_and_what_the_command_line_gives_comes_before_it():
    profile = load_profile({**PROFILE, "scale": "photos"}, "mine")
    assert (profile.name, profile.tables, profile.inputs) == ("mine_photos", ["mine/t"], "here")
    given = {"scale": "photos", "tables": ["mine/v"], "execution": {"device": "cpu"}}
    profile = load_profile({**PROFILE, **given}, "mine")
    assert profile.tables == ["mine/v"]
    assert (profile.execution.threads, profile.execution.device) == (2, "cpu")
    more = {**PROFILE["scales"], "readings": {"scale": "photos", "tables": ["mine/v"]}}
    profile = load_profile({**PROFILE, "scales": more, "scale": "readings"}, "p")
    assert (profile.name, profile.scale, profile.tables) == ("mine_readings", "photos", ["mine/v"])


def test_a_profile_of_one_scale_is_not_run_at_another_into_the_same_folders():
    written = {"name": "demo", "scale": "scenes"}
    with refused(ConfigError, "demo.yaml", "--config", "at the scale 'scenes'"):
        refuse_other_scale({**written, "scale": "photos"}, written, "demo.yaml")
    refuse_other_scale({**written, "scale": "photos", "name": "mine"}, written, "demo.yaml")
    refuse_other_scale({**written, "seeds": [1]}, written, "demo.yaml")
    refuse_other_scale({**PROFILE, "scale": "photos"}, PROFILE, "mine.yaml")
