"""Names of variants as parts of paths, and labels of runs:
one rule for MLflow, messages, captions and figures."""

import pytest

from helpers.plans import PARAMS
from recap.plan.run import labels, row_setting, unique_labels
from recap.plan.variants import LONGEST, Variant
from recap.settings.params import read_mapping


def variant_name(changes):
    return Variant("models", "m", shown=changes).name


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, "m"),
        ({"b": 2, "a": "relu"}, "m+a=relu,b=2"),
        (
            {"xe": {"epochs": 1, "schedule": {"learning_rate": 5e-05}}},
            "m+xe.epochs=1,xe.schedule.learning_rate=5e-05",
        ),
        ({"on": True, "off": None}, "m+off=null,on=true"),
        ({"betas": [0.9, 0.999]}, "m+betas=0.9_0.999"),
    ],
)
def test_changes_are_readable_in_a_name(changes, name):
    assert variant_name(changes) == name


def test_values_that_a_path_cannot_hold_are_told_apart_by_a_hash():
    first, second = (variant_name({"words": words}) for words in (["a b", "c"], ["a/b", "c"]))
    assert first != second
    for name in (first, second):
        assert name.startswith("m+words=a-b_c+")
        assert not set(name) & set(" /@{}'\"$&%")


def test_long_names_are_cut_between_keys_and_told_apart_by_a_hash():
    changes = {f"a_rather_long_key_{number}": number for number in range(20)}
    name, other = variant_name(changes), variant_name({**changes, "a_rather_long_key_19": 0})
    assert name != other
    assert len(name) <= LONGEST
    head, digest = name.rsplit("+", 1)
    assert head.startswith("m+a_rather_long_key_0=0,") and head.rsplit("=", 1)[1].isdigit()
    assert len(digest) == 8


def row(label, setting="photos/full/grid/xlan@long", stage="scst"):
    dataset, subset, features, last = setting.split("/")
    model, recipe = last.split("@")
    parts = {
        "dataset": dataset,
        "subset": subset,
        "features": features,
        "model": model,
        "recipe": recipe,
    }
    return {**parts, "label": label, "stage": stage}


def test_both_stages_of_a_setting_have_one_label():
    whole, short = "photos/full/grid/xlan@long", "photos/full/grid/xlan@short"
    tables = {"t": [row("X-LAN", whole), {**row("X-LAN", short), "stage": "xe"}]}
    named = labels(tables, [f"{whole}/xe"])
    assert named == {
        f"{whole}/scst": "X-LAN (long)",
        f"{short}/xe": "X-LAN (short)",
        f"{whole}/xe": "X-LAN (long)",
    }


def test_a_run_has_the_label_of_its_row_and_so_has_its_first_stage():
    tables = {"t": [row("X-LAN"), row("ACF", "photos/full/grid/acf+heads=2@scst_long")]}
    first = "photos/full/grid/acf+heads=2@long/xe"
    named = labels(tables, [first, "photos/full/grid/gone@long/xe"])
    assert named == {
        "photos/full/grid/xlan@long/scst": "X-LAN",
        "photos/full/grid/acf+heads=2@scst_long/scst": "ACF",
        first: "ACF",
        "photos/full/grid/gone@long/xe": "gone",
    }


def test_a_training_that_rows_share_follows_the_row_of_its_model():
    tables = {"t": [row("X-LAN"), row("ACF", "photos/full/grid/acf@long")]}
    named = labels(tables, ["photos/full/grid/gone@short/xe", "photos/full/grid/xlan@short/xe"])
    assert list(named.items()) == [
        ("photos/full/grid/xlan@long/scst", "X-LAN"),
        ("photos/full/grid/xlan@short/xe", "X-LAN"),
        ("photos/full/grid/acf@long/scst", "ACF"),
        ("photos/full/grid/gone@short/xe", "gone"),
    ]


def test_settings_of_one_label_are_told_apart_by_what_differs():
    settings = {
        "photos/full/grid/xlan@long": "Baseline (grid, long)",
        "photos/full/boxes/xlan@long": "Baseline (boxes, long)",
        "photos/full/grid/xlan@short": "Baseline (grid, short)",
        "photos/full/grid/zodiac@long": "ZoDIAC",
    }
    rows = [row(label.partition(" (")[0], setting) for setting, label in settings.items()]
    assert list(labels({"t": rows}).values()) == list(settings.values())
    assert row_setting(rows[0]) == next(iter(settings))


def test_a_legend_tells_equal_labels_apart_by_one_part_in_words():
    series = {
        "photos/full/grid/wide@two_epochs/xe": "Wide",
        "photos/full/grid/wide@long/xe": "Wide",
        "photos/full/grid/wide@long/scst": "Wide",
        "photos/pair_1/grid/deep@long/xe": "Deep",
        "xrays/full/other_grid/deep@long/xe": "Deep",
        "photos/full/grid/small@long/xe": "Small",
    }
    named = unique_labels(series, {"two_epochs": "two epochs", "xrays": "X-rays"})
    two, long = "Wide (two epochs)", "Wide (long)"
    assert list(named.values()) == [two, long, long, "Deep (photos)", "Deep (X-rays)", "Small"]
    whole = {f"{data}/full/{grid}/a@b/xe": "A" for data in ("x", "y") for grid in ("g", "h")}
    assert unique_labels(whole, {})["x/full/g/a@b/xe"] == "A (x, g)"


def test_no_row_that_is_trained_here_is_called_quoted():
    rows = [
        row
        for file in PARAMS.glob("**/tables/*.yaml")
        for row in read_mapping(file).get("rows") or []
    ]
    assert len(rows) > 100 and not [
        row["label"] for row in rows if "quoted" in row.get("label", "")
    ]
