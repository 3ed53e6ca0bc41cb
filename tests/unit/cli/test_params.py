"""``recap params``: lists that say what a name is, and every setting of a row with its source."""

import json
from functools import partial

import pytest
import yaml

from helpers import commands
from helpers.plans import PARAMS, edited
from recap.cli import main
from recap.plan.source import keys_omitted_at_default
from recap.settings import SECTIONS
from recap.settings.params import load_named, names

pytestmark = pytest.mark.seconds


@pytest.fixture
def printed(capsys):
    return partial(commands.printed, capsys)


def settings(page):
    """Return the lines of `recap params show` by section and key: value and source."""
    result = {}
    for line in page.splitlines()[1:]:
        if not line.startswith(" "):
            section = line.partition(":")[0]
            continue
        setting, _, source = line.partition("  #")
        key, _, value = setting.strip().partition(": ")
        result[section, key] = (json.loads(value), source.strip())
    return result


def test_every_setting_of_a_row_is_shown_also_the_neutral_ones(printed):
    page = settings(printed("params", "show", "visualgpt/t4/tau02", "--params", str(PARAMS)))
    keys = {
        key.rpartition(".")[2]
        for section, key in page
        if section.startswith(("features", "models", "recipes"))
    }
    assert keys >= {
        name.partition(".")[2]
        for name in keys_omitted_at_default()
        if name.startswith(("Recipe", "Stage", "Self"))
    }
    assert keys >= {"truncate_to_words", "vectors"}
    assert page["recipes/visualgpt_whole", "scst.dropout"] == (
        False,
        "default (recap.settings.recipes)",
    )
    assert page["models/visual_gpt+tau=0.2", "tau"] == (
        0.2,
        "params/visualgpt/tables/t4.yaml: row 'tau02': model",
    )
    assert (
        yaml.safe_load(printed("params", "show", "acf/t1/acf", "--params", str(PARAMS)))["row"][
            "stage"
        ]
        == "scst"
    )


def test_a_row_shows_its_seeds_baseline_draws_and_printed_values(printed):
    text = printed(
        "params",
        "show",
        "visualgpt/t1_f001/visualgpt_tau02",
        "--params",
        str(PARAMS),
        "--scale",
        "paper",
    )
    assert "subsets/pair_0.1:  # one draw per seed" in text.splitlines()
    row = {key: result for (section, key), result in settings(text).items() if section == "row"}
    assert row["seeds"] == ([1, 2, 3, 4], "params/visualgpt/tables/t1.yaml")
    assert row["stage"][0] == "scst" and row["ensemble"] == (
        False,
        "default (recap.settings.tables)",
    )
    assert row["baseline"] == ("transformer_l3", "params/visualgpt/tables/t1.yaml")
    table = load_named(PARAMS, "tables", "visualgpt/t1_f001")
    (planned_row,) = (each for each in table.rows if each.id == "visualgpt_tau02")
    where = "params/visualgpt/tables/t1.yaml: row 'visualgpt_tau02'"
    assert row["printed.CIDEr"] == (planned_row.printed["CIDEr"], where)
    assert row["printed_sd.CIDEr"] == (planned_row.printed_sd["CIDEr"], where)
    assert row["doubt.METEOR"] == (planned_row.doubt["METEOR"], where)
    at_scenes = settings(
        printed("params", "show", "fusion/t1/ft", "--params", str(PARAMS), "--scale", "scenes")
    )
    assert at_scenes["row", "seeds"] == (
        [1, 2, 3, 4, 5],
        "params/fusion/scales/scenes.yaml: tables.fusion.seeds",
    )


def test_what_features_and_models_are_made_from_is_shown_with_them(printed, params):
    row = {
        "id": "f",
        "label": "F",
        "features": "scenes_boxes",
        "model": "transformer",
        "dataset": "scenes",
    }
    rows = [{**row, "recipe": "scenes_short"}]
    edited(params, "tables/f.yaml", title="T", columns=["CIDEr"], baseline="f", rows=rows)
    sections = {
        section
        for section, _ in settings(printed("params", "show", "f/f", "--params", str(params)))
    }
    assert {"features/scenes_boxes", "features/scenes_grid"} <= sections
    page = printed(
        "params", "show", "visualgpt/t4/tau0", "--params", str(PARAMS), "--scale", "scenes"
    )
    assert ("language_models/scenes", "layers") in settings(page)


def test_sections_are_listed_with_the_number_of_their_files(printed):
    lines = {line.split()[0]: line.split()[1] for line in printed("params", "list").splitlines()}
    assert set(lines) == set(SECTIONS) and lines["tables"] == str(len(names(PARAMS, "tables")))


def test_a_list_says_which_papers_use_a_name_how_large_it_is_and_what_it_is(printed):
    lines = {
        line.split()[0]: line.split(maxsplit=3)
        for line in printed("params", "list", "models").splitlines()
    }
    assert lines["transformer_plus"][:3] == ["transformer_plus", "zodiac", "80.11"]
    assert "TR+ of the ZoDIAC paper" in lines["transformer_plus"][3]
    assert "xlan/t3" in {
        line.split()[0] for line in printed("params", "list", "tables").splitlines()
    }


def test_config_check_and_plan_warn_of_a_warm_up_longer_than_the_training(tmp_path, capsys):
    profile = tmp_path / "few.yaml"
    profile.write_text("{name: few, tables: [visualgpt/t4], scale: scenes}")
    for command in (["config", "check"], ["plan"]):
        main([*command, str(profile), "--params", str(PARAMS)])
        assert "warm-up of 80 steps is longer than the training of 40" in capsys.readouterr().err
