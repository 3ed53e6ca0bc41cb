"""Figures over a setting: which rows are points,
the numbers in the CSV, and a picture of the asked size."""

import csv

import pytest
from PIL import Image

from helpers.plans import PARAMS, edited
from helpers.refusals import refused
from helpers.score_files import make_table, write_scores
from recap.core.errors import ConfigError, RecapError, UnknownName
from recap.plan.resolve import resolve
from recap.report.figures import write_sweep
from recap.settings import Profile
from recap.settings.figures import Figure, Line
from recap.statistics.compare import compare_table

LAYERS = {
    "title": "Layers of X-LAN's encoder",
    "x": {"setting": "model.encoder_layers", "label": "layers"},
    "metrics": ["CIDEr"],
    "tables": ["xlan/t3"],
    "line_of": "table",
    "labels": {"xlan/t3": "X-LAN"},
    "rows": ["enc2", "enc1"],
}


@pytest.fixture
def planned(params):
    def plan(**changes):
        edited(params, "mine/figures/layers.yaml", **{**LAYERS, **changes})
        plans = resolve(
            Profile(name="p", tables=["recap/demo"], figures=["mine/layers"], scale="scenes"),
            params,
        )
        return plans, plans.figures["mine/layers"]

    return plan


def test_a_figure_asks_for_its_tables_and_reads_the_axis_from_their_rows(planned):
    plan, figure = planned()
    assert list(plan.tables) == ["recap/demo", "xlan/t3"]
    (line,) = figure.lines
    points = [(point.x, point.table, point.row) for point in line.points]
    assert points == [(1, "xlan_t3", "enc1"), (2, "xlan_t3", "enc2")]
    assert figure.scale == plan.tables["xlan/t3"].scale


def test_the_sentence_about_the_scale_holds_for_all_tables_of_a_figure():
    plan = resolve(
        Profile(name="p", tables=["recap/demo"], figures=["recap/low_data"], scale="photos"), PARAMS
    )
    short, whole = (
        plan.tables["recap/low_data_001"].short_scale,
        plan.figures["recap/low_data"].scale,
    )
    assert short and whole.startswith(short)
    assert whole.count("in place of") == short.count("in place of") == 1


@pytest.mark.parametrize(
    ("changes", "kind", "named"),
    [
        ({"rows": ["enc9"]}, UnknownName, ["'mine/layers'", "'xlan/t3'", "'enc9'"]),
        ({"labels": {"xlan/t9": "X"}}, UnknownName, ["'mine/layers'", "labels", "'xlan/t9'"]),
        (
            {"x": {"setting": "model.activation", "label": "-"}},
            ConfigError,
            ["'enc2'", "'model.activation'"],
        ),
        ({"line_of": "row"}, ConfigError, ["layers.yaml", "`rows`", "line_of 'table'"]),
    ],
)
def test_what_does_not_fit_is_one_sentence(planned, changes, kind, named):
    with refused(kind, *named):
        planned(**changes)


@pytest.fixture
def drawn(tmp_path):
    """Draw two rows of one table over two numbers of an axis."""
    table, seeds = make_table(), [1, 2]
    write_scores(tmp_path / "scores", table, seeds)
    folder = tmp_path / "statistics"
    for name in ("one", "two"):
        compare_table(
            table=table,
            name=name,
            seeds=seeds,
            scores_root=tmp_path / "scores",
            statistics_out=folder / f"{name}.json",
        )
    rows = [row.id for row in table.rows]

    def draw(**changes):
        points = {
            row: [{"x": 5, "table": "one", "row": row}, {"x": 20, "table": "two", "row": row}]
            for row in rows
        }
        figure = Figure(
            title="Costs $5 <b>",
            scale="tiny",
            x_label="pairs, percent",
            logarithmic=True,
            metrics=list(table.columns)[:2],
            lines=[{"label": f"={row}$", "points": points[row]} for row in rows],
        ).model_copy(update=changes)
        write_sweep(
            figure=figure, statistics=folder, png=tmp_path / "f.png", out=tmp_path / "f.csv"
        )
        return list(csv.DictReader((tmp_path / "f.csv").open()))

    draw.rows, draw.columns, draw.png = rows, list(table.columns), tmp_path / "f.png"
    return draw


def test_the_numbers_are_means_with_their_t_interval(drawn):
    lines = drawn()
    assert len(lines) == 2 * 2 * len(drawn.rows)
    assert {line["runs"] for line in lines} == {"2"}
    assert all(line["line"].startswith("'=") for line in lines)  # no formula for a spreadsheet
    for line in lines:
        low, mean, high = (float(line[key]) for key in ("low", "mean", "high"))
        assert low <= mean <= high and mean - low == pytest.approx(high - mean)
    with Image.open(drawn.png) as picture:
        assert picture.size[0] > 1000


def test_a_row_without_statistics_is_named(drawn):
    with refused(RecapError, "one.json", "row 'nowhere'"):
        drawn(lines=[Line(label="a", points=[{"x": 1, "table": "one", "row": "nowhere"}])])
