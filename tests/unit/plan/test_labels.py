"""Labels of runs: one rule for MLflow, messages, captions and figures."""

from recap.plan.run import labels, row_setting, series_of


def row(label, setting="photos/full/grid/xlan@long", stage="scst"):
    dataset, subset, features, last = setting.split("/")
    model, recipe = last.split("@")
    parts = {"dataset": dataset, "subset": subset, "features": features, "model": model, "recipe": recipe}
    return {**parts, "label": label, "stage": stage}


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


def test_of_several_tables_the_first_by_name_decides():
    tables = {"t2": [row("Ours")], "t1": [row("Baseline"), row("Baseline (XE)", stage="xe")]}
    assert labels(tables) == {
        "photos/full/grid/xlan@long/scst": "Baseline",
        "photos/full/grid/xlan@long/xe": "Baseline (XE)",
    }


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


def test_the_series_of_a_run_is_its_folder_without_the_seed():
    assert series_of("photos/full/grid/xlan@long/seed-3/xe") == "photos/full/grid/xlan@long/xe"
    assert series_of("photos/full/grid/xlan@long/ensemble-1+2/scst") == "photos/full/grid/xlan@long/scst"
