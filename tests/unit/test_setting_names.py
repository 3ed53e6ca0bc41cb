"""Labels of settings, as in learning curves."""

from recap.core.setting_names import told_apart


def test_settings_of_one_label_are_told_apart_by_what_differs():
    labels = {
        "photos/full/grid/xlan@long": "Baseline",
        "photos/full/boxes/xlan@long": "Baseline",
        "photos/full/grid/xlan@short": "Baseline",
        "photos/full/grid/zodiac@long": "ZoDIAC",
    }
    named = ["Baseline (grid, long)", "Baseline (boxes, long)", "Baseline (grid, short)", "ZoDIAC"]
    assert told_apart(labels) == dict(zip(labels, named, strict=True))
