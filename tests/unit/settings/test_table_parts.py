"""Tables with parts: each part is planned as a table that has a file of its own."""

import json

import pytest

from helpers.plans import edited, planned
from helpers.refusals import refused
from recap.core.errors import ConfigError
from recap.settings.params import load_named, profiles_of_tables

COMMON = {"columns": ["BLEU-4", "CIDEr"], "baseline": "a", "printed_on": "scenes", "seeds": 3}
SETTINGS = {"dataset": "scenes", "features": "scenes_grid", "recipe": "scenes_short", "stage": "xe"}
SMALL, LARGE = {"CIDEr": 10.0, "BLEU-4": 2.0}, {"CIDEr": 30.0}
A = {"id": "a", "label": "A", "model": "transformer"}
B = {"id": "b", "label": "B", "model": {"base": "zodiac", "gate": "tanh"}}
OF_B = {
    "printed": SMALL,
    "printed_sd": {"CIDEr": 0.5},
    "printed_p": {"CIDEr": 0.01},
    "doubt": {"CIDEr": "as above"},
}
WHOLE = {
    **COMMON,
    "defaults": SETTINGS,
    "parts": {
        "f1": {"subset": "pair_1", "title": "One percent", "note": "Small."},
        "005": {"subset": "pair_5", "recipe": "scenes", "title": "Five percent"},
    },
    "rows": [
        {**A, "printed": {"f1": SMALL, "005": LARGE}},
        {**B, "parts": ["f1"], **{key: {"f1": values} for key, values in OF_B.items()}},
        {"id": "c", "label": "C", "model": "zodiac", "parts": ["005"]},
    ],
}
ALONE = {
    **COMMON,
    "title": "One percent",
    "note": "Small.",
    "defaults": {**SETTINGS, "subset": "pair_1"},
    "rows": [{**A, "printed": SMALL}, {**B, **OF_B}],
}


@pytest.fixture
def with_parts(params):
    folder = params / "mine" / "tables"
    folder.mkdir(parents=True)
    (folder / "whole.yaml").write_text(json.dumps(WHOLE))  # in this order
    (folder / "alone.yaml").write_text(json.dumps(ALONE))
    return params


def test_a_part_is_planned_as_the_table_that_it_would_be_alone(with_parts):
    part, alone = (planned(with_parts, None, [name]) for name in ("mine/whole_f1", "mine/alone"))
    assert part.tables["mine/whole_f1"] == alone.tables["mine/alone"]
    assert part.seeds["mine/whole_f1"] == alone.seeds["mine/alone"] == [1, 2, 3]
    other = planned(with_parts, None, ["mine/whole_005"]).tables["mine/whole_005"]
    rows = [(row.id, row.subset, row.recipe, row.printed) for row in other.rows]
    assert rows == [("a", "pair_5", "scenes", LARGE), ("c", "pair_5", "scenes", {})]


def test_the_name_of_the_file_means_all_its_parts_in_profiles_and_figures(with_parts):
    tables = list(planned(with_parts, None, ["mine/alone", "mine/whole"]).tables)
    assert tables == ["mine/alone", "mine/whole_f1", "mine/whole_005"]
    axis = {"setting": "subset.fraction", "label": "share"}
    figure = {
        "title": "F",
        "x": axis,
        "metrics": ["CIDEr"],
        "tables": ["mine/whole"],
        "line_of": "row",
    }
    edited(with_parts, "mine/figures/f.yaml", **figure, labels={"a": "A"})
    plan = planned(with_parts, None, ["mine/alone"], figures=["mine/f"])
    points = [(point.x, point.table) for point in plan.figures["mine/f"].lines[0].points]
    assert points == [(0.01, "mine_whole_f1"), (0.05, "mine_whole_005")]
    edited(with_parts, "mine_of_all.yaml", name="mine", tables=["mine/whole"])
    assert "mine" in profiles_of_tables(with_parts)["mine/whole_005"]


def test_another_table_may_be_as_a_part_and_a_scale_may_name_it(with_parts):
    edited(with_parts, "mine/tables/more.yaml", base="mine/whole_f1", title="More", seeds=2)
    assert (
        load_named(with_parts, "tables", "mine/more").rows
        == load_named(with_parts, "tables", "mine/alone").rows
    )
    edited(with_parts, "scales/half.yaml", opening="Half", tables={"mine/whole_f1": {"seeds": [7]}})
    plan = planned(with_parts, "half", ["mine/whole"])
    assert plan.seeds == {"mine/whole_f1": [7], "mine/whole_005": [1, 2, 3]}


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"rows": [{**A, "printed": {"f2": SMALL}}]}, ["row 'a': printed", "'f2'", "005, f1"]),
        ({"rows": [{**WHOLE["rows"][1], "parts": ["005"]}]}, ["row 'b': printed", "'f1'", "005"]),
        ({"parts": {**WHOLE["parts"], "f1": {"subest": "x"}}}, ["'parts.f1.subest'", "'subset'"]),
        ({"baseline": "b"}, ["baseline", "'b'", "a, c"]),
    ],
)
def test_a_mistake_is_said_with_the_file_of_all_parts(with_parts, changes, named):
    edited(with_parts, "mine/tables/whole.yaml", **changes)
    with refused(ConfigError, "params/mine/tables/whole.yaml", *named):
        planned(with_parts, None, ["mine/alone", "mine/whole"])
