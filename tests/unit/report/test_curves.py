"""Learning curves of all runs, as numbers and as a picture that names each.

The flat file of `dvc metrics diff`.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from helpers.refusals import refused
from recap.core.checksums import record
from recap.core.errors import ChangedFile, DamagedFile, MissingFile
from recap.report.figures import draw_curves, write_curves, write_summary
from recap.settings.params import validate
from recap.settings.specs import CurvesSpec
from recap.tables.colours import COLOURS, colour_of

pytestmark = pytest.mark.seconds

HEAD = "epoch,step,loss,learning_rate,val_cider_d,seconds\n"


def curve(label, stage="xe", epochs=3, start=0, more=0.0):
    """Return the history of a run as it is drawn."""
    numbers = range(1, epochs + 1)
    history = pd.DataFrame({"epoch": numbers, "percent": [100.0 * n + more for n in numbers]})
    return history.assign(label=label, stage=stage, place=start + history.epoch)


def run(label, seed, stage="xe"):
    after = f"{label}/seed-{seed}/xe" if stage == "scst" else None
    return {
        "label": label,
        "seed": seed,
        "stage": stage,
        "path": f"{label}/seed-{seed}/{stage}",
        "after": after,
    }


def write_history(tmp_path, named, text):
    folder = tmp_path / named["path"]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "history.csv").write_text(text)
    return folder / "history.csv"


@pytest.fixture
def write(tmp_path):
    """Return a function that writes the curves of the named runs and returns CSV and figure."""

    def write(*runs):
        out, figure = tmp_path / "curves.csv", tmp_path / "figures" / "curves.png"
        try:
            write_curves(
                spec=validate(CurvesSpec, {"runs": list(runs)}, "curves"),
                runs=tmp_path,
                out=out,
                figure=figure,
            )
        finally:
            assert out.exists() == figure.exists()
        return out, figure

    return write


def test_curves_of_all_runs_stand_below_each_other_under_readable_names(tmp_path, write):
    runs = [run("ZoDIAC (a $ign)", 1), run("ZoDIAC (a $ign)", 1, "scst"), run("Transformer", 2)]
    for number, named in enumerate(runs):
        # no loss before its first step
        before = "0,0,,,0.2,1\n" if named["stage"] == "scst" else ""
        write_history(tmp_path, named, f"{HEAD}{before}1,5,3.0,0.1,0.{number},9\n2,10,2.5,0.1,,9\n")
    out, figure = write(*runs)
    assert out.read_text().splitlines() == [
        "label,seed,stage,epoch,loss,val_cider_d",
        "ZoDIAC (a $ign),1,xe,1,3.0,0",
        "ZoDIAC (a $ign),1,xe,2,2.5,",
        "ZoDIAC (a $ign),1,scst,0,,20",
        "ZoDIAC (a $ign),1,scst,1,3.0,10",
        "ZoDIAC (a $ign),1,scst,2,2.5,",
        "Transformer,2,xe,1,3.0,20",
        "Transformer,2,xe,2,2.5,",
    ]
    with Image.open(figure) as picture:
        assert picture.format == "PNG"
        assert len(picture.convert("RGB").getcolors(2**20)) > 10
    again = {kind: figure.with_suffix(kind).read_bytes() for kind in (".pdf", ".svg")}
    assert again[".pdf"].startswith(b"%PDF") and b"<svg" in again[".svg"]
    write(*runs)
    assert again == {kind: figure.with_suffix(kind).read_bytes() for kind in again}


@pytest.fixture
def axes_of(tmp_path, monkeypatch):
    """Return a function that returns the axes on which curves were drawn."""

    def savefig(drawing, path, **_):
        Path(path).touch()
        drawings.append(drawing)

    def draw(*curves, labels=None):
        draw_curves(pd.concat(curves), labels or pd.concat(curves).label, tmp_path / "curves.png")
        return drawings[-1].axes[0]

    drawings = []
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", savefig)
    return draw


def test_seeds_of_a_label_are_one_line_with_bars(axes_of):
    axes = axes_of(curve("a"), curve("a", more=100.0))
    (line,) = (line for line in axes.lines if len(line.get_xdata()))
    assert list(line.get_ydata()) == [150, 250, 350]
    assert "mean over the seeds" in axes.get_title()
    (bars,) = axes.collections
    assert [list(ends[:, 1]) for ends in bars.get_segments()] == [
        [100, 200],
        [200, 300],
        [300, 400],
    ]


def test_a_second_stage_follows_its_first_with_another_mark(axes_of):
    axes = axes_of(curve("a"), curve("a", "scst", epochs=2, start=3))
    lines = [
        (list(line.get_xdata()), line.get_marker()) for line in axes.lines if len(line.get_xdata())
    ]
    assert lines == [([1, 2, 3], "o"), ([4, 5], "^")]
    assert axes.get_title() == "Validation CIDEr-D after each epoch"


def test_a_row_has_one_colour_in_every_figure_and_another_dash_where_colours_repeat(axes_of):
    assert colour_of(["Transformer", "ACF", "Transformer"]) == {
        "Transformer": COLOURS[0],
        "ACF": COLOURS[1],
    }
    assert axes_of(curve("ACF"), labels=["Transformer", "ACF"]).lines[-1].get_color() == COLOURS[1]
    first, *_, eighth = axes_of(*(curve(f"row {n}") for n in range(8))).get_legend_handles_labels()[
        0
    ]
    assert (
        first.get_color() == eighth.get_color() and first.get_linestyle() != eighth.get_linestyle()
    )


def test_many_long_labels_are_not_cut(tmp_path):
    setting = "VisualGPT (flickr8k/pair_20/mobilenetv2_grid/visual_gpt+tau=0.2@photos_pairs_20)"
    lines = pd.concat(curve(f"{setting} {n}", epochs=2) for n in range(16))
    draw_curves(lines, lines.label, tmp_path / "many.png")
    picture = np.asarray(Image.open(tmp_path / "many.png").convert("L"))
    assert all(
        (edge == 255).all() for edge in (picture[0], picture[-1], picture[:, 0], picture[:, -1])
    )


@pytest.mark.parametrize(
    ("text", "kind", "key"),
    [
        (None, MissingFile, ""),
        ("epoch,loss\n0,1\n", DamagedFile, "'val_cider_d'"),
        (f"{HEAD}1,5,much,0.1,0.3,9\n", DamagedFile, "much"),
    ],
)
def test_a_missing_or_broken_history_is_named(tmp_path, write, text, kind, key):
    named = run("one", 1)
    if text:
        write_history(tmp_path, named, text)
    with refused(kind, "one/seed-1/xe/history.csv", key):
        write(named)


def test_a_history_that_changed_after_it_was_finished_is_refused(tmp_path, write):
    named = run("one", 1)
    history = write_history(tmp_path, named, f"{HEAD}1,5,3.0,0.1,0.3,9\n")
    record(history)
    history.write_text(f"{HEAD}1,5,3.0,0.1,0.9,9\n")
    with refused(ChangedFile, "history.csv"):
        write(named)


def test_the_summary_is_the_mean_over_seeds_and_leaves_out_what_did_not_run(tmp_path):
    rest = {"signature": "tok:ptb", "split": "test", "decoding": {}}
    for seed, scores in (
        ("1", {"CIDEr": 0.4, "METEOR": None}),
        ("2", {"CIDEr": 0.6, "METEOR": 0.2}),
    ):
        (tmp_path / seed).mkdir()
        (tmp_path / seed / "metrics.json").write_text(json.dumps({"scores": scores, **rest}))
    write_summary(rows={"table.row": ["1", "2"]}, scores=tmp_path, out=tmp_path / "summary.json")
    assert json.loads((tmp_path / "summary.json").read_text()) == {"table.row.CIDEr": 50.0}
