"""Learning curves: the numbers as they stand in the histories, and a picture that names every run."""

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from PIL.ImageColor import getrgb

from helpers.refusals import refused
from recap.core.checksums import record
from recap.core.errors import ChangedFile, DamagedFile, MissingFile
from recap.report.figures import draw_curves, write_curves
from recap.tables.contact_sheet import COLOURS, colour_of

pytestmark = pytest.mark.seconds

HEAD = "epoch,step,loss,learning_rate,val_cider_d,seconds\n"


def curve(label, stage="xe", epochs=3, start=0):
    """Return the history of a run as it is drawn."""
    numbers = range(1, epochs + 1)
    return pd.DataFrame({"epoch": numbers, "percent": [100.0 * n for n in numbers]}).assign(
        label=label, stage=stage, start=start
    )


def draw(png, *curves, labels=None):
    lines = pd.concat(curves)
    draw_curves(lines, labels or lines.label, png)
    return png.read_bytes()


def run(label, seed, stage="xe"):
    after = f"{label}/seed-{seed}/xe" if stage == "scst" else None
    return {"label": label, "seed": seed, "stage": stage, "path": f"{label}/seed-{seed}/{stage}", "after": after}


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
            write_curves(spec={"runs": list(runs)}, runs=tmp_path, out=out, figure=figure)
        finally:
            assert out.exists() == figure.exists()
        return out, figure

    return write


def test_curves_of_all_runs_stand_below_each_other_under_readable_names(tmp_path, write):
    runs = [run("ZoDIAC (a $ign)", 1), run("ZoDIAC (a $ign)", 1, "scst"), run("Transformer", 2)]
    for number, named in enumerate(runs):
        before = "0,0,,,0.2,1\n" if named["stage"] == "scst" else ""  # no loss before its first step
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


def test_seeds_of_a_label_are_one_line_with_a_band(tmp_path, write):
    def svg(values):
        for seed, value in enumerate(values, start=1):
            write_history(tmp_path, run("A", seed), f"{HEAD}1,5,3,0.1,{value},9\n2,10,3,0.1,{value},9\n")
        return write(*(run("A", seed) for seed in range(1, len(values) + 1)))[1].with_suffix(".svg").read_text()

    assert svg([0.3, 0.7]) != svg([0.5, 0.5])  # equal means, another band
    assert svg([0.3, 0.7]).count("FillBetweenPolyCollection") == 1


def test_every_stage_and_epoch_leaves_its_mark_and_a_second_stage_follows_its_first(tmp_path):
    png = tmp_path / "one.png"
    several = [draw(png, curve("a")), draw(png, curve("a", "scst")), draw(png, curve("a", epochs=1))]
    several += [draw(png, curve("a"), curve("b", "scst", start=start)) for start in (0, 3)]
    assert len(set(several)) == 5


def test_a_row_has_one_colour_in_every_figure(tmp_path):
    assert colour_of(["Transformer", "ACF", "Transformer"]) == {"Transformer": COLOURS[0], "ACF": COLOURS[1]}
    draw(tmp_path / "first.png", curve("ACF", epochs=1))
    draw(tmp_path / "second.png", curve("ACF", epochs=1), labels=["Transformer", "ACF"])
    result = [
        {rgb for _, rgb in Image.open(tmp_path / name).convert("RGB").getcolors(2**20)}
        for name in ("first.png", "second.png")
    ]
    assert [getrgb(COLOURS[1]) in colours for colours in result] == [False, True]


def test_many_long_labels_are_neither_cut_nor_alike(tmp_path):
    labels = [
        f"VisualGPT (flickr8k/pair_20/mobilenetv2_grid/visual_gpt+tau=0.2@photos_pairs_20) {n}" for n in range(16)
    ]
    draw(tmp_path / "many.png", *(curve(label, epochs=2) for label in labels))
    picture = np.asarray(Image.open(tmp_path / "many.png").convert("L"))
    assert all((edge == 255).all() for edge in (picture[0], picture[-1], picture[:, 0], picture[:, -1]))
    # The eighth label has the first one's colour and another dash.
    first, eighth = (draw(tmp_path / "one.png", curve(labels[n], epochs=2), labels=labels[:8]) for n in (0, 7))
    assert first != eighth


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
