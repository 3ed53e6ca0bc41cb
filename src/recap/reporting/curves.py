"""Learning curves of all runs: the numbers as a CSV, validation CIDEr-D as a figure for ``dvc plots`` and reports."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from recap.core.checksums import check
from recap.core.errors import DamagedFile, MissingFile
from recap.core.files import atomic_path, csv_text, write_text
from recap.reporting.colours import COLOURS, colour_of
from recap.reporting.text import plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = ("label", "seed", "stage", "epoch", "loss", "val_cider_d")
_READ = COLUMNS[3:]
_SECOND = "scst"
_DASHES: tuple[Literal["solid", "dashed", "dotted", "dashdot"], ...] = ("solid", "dashed", "dotted", "dashdot")
_FILLS: tuple[Literal["full", "none", "left"], ...] = ("full", "none", "left")  # of markers, where colors repeat
_SHORT = 60  # characters of labels of which two stand side by side in the legend


@dataclass(frozen=True)
class Curve:
    """One training stage of one seed: the rows of its history, as text by column; it continues the run ``after``."""

    label: str
    seed: int
    stage: str
    lines: list[dict[str, str]]
    path: str = ""
    after: str | None = None

    def points(self) -> list[tuple[int, float]]:
        """Return epoch and validation CIDEr-D of every epoch that was validated."""
        return [(int(line["epoch"]), float(line["val_cider_d"])) for line in self.lines if line["val_cider_d"]]


def write_curves(*, spec: Mapping[str, Any], runs: Path, out: Path, figure: Path) -> None:
    """Write the learning curves of all runs: a CSV with one row per epoch, and validation CIDEr-D as a PNG.

    Args:
        spec: ``{"runs": [{"label": text, "seed": n, "stage": "xe" or "scst", "path": folder below runs, "after": path
            of the run that it continues, or None}, ...]}``; labels get their colours in this order.
        runs: the folder ``results/<profile>/runs``.
        out: the CSV to write.
        figure: the PNG to write.
    """
    curves = [Curve(lines=_history(runs / run["path"] / "history.csv"), **run) for run in spec["runs"]]
    rows = (
        [curve.label, curve.seed, curve.stage, *(line[key] for key in _READ)]
        for curve in curves
        for line in curve.lines
    )
    draw_curves(curves, figure)
    write_text(out, csv_text([COLUMNS, *rows]))


def draw_curves(curves: Sequence[Curve], figure: Path) -> None:
    """Draw validation CIDEr-D by epoch as a PNG; epochs of the second stage follow those of the first.

    A label has a color and, where colors repeat, markers filled in another way; a seed has a dash.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    labels = list(dict.fromkeys(curve.label for curve in curves))
    seeds = sorted({curve.seed for curve in curves})
    columns = 2 if max(map(len, labels), default=0) <= _SHORT else 1
    below = 0.2 * -(-(len(labels) + len(seeds)) // columns)  # inches of the legend
    canvas = FigureCanvasAgg(Figure(figsize=(9, 4.8 + below), dpi=150, layout="constrained"))
    axes = canvas.figure.add_subplot()
    epochs = {curve.path: len(curve.lines) for curve in curves}
    colours = colour_of(labels)
    for curve in curves:
        start = epochs.get(curve.after, 0) if curve.after else 0
        axes.plot(
            [start + epoch for epoch, _ in curve.points()],
            [value for _, value in curve.points()],
            color=colours[curve.label],
            fillstyle=_fill(labels.index(curve.label)),
            linestyle=_DASHES[seeds.index(curve.seed) % len(_DASHES)],
            marker="^" if curve.stage == _SECOND else "o",
            markersize=5,
        )
    axes.set_title("Validation CIDEr-D after each epoch")
    self_critical = any(curve.stage == _SECOND for curve in curves)
    axes.set_xlabel("epoch" + ("\n(triangles: self-critical, after cross-entropy)" if self_critical else ""))
    axes.set_ylabel("CIDEr-D (maximum 10)")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
    _legend(canvas.figure, labels, seeds, columns)
    with atomic_path(figure) as temporary:
        canvas.figure.savefig(temporary, format="png")


def _fill(index: int) -> Literal["full", "none", "left"]:
    """Return how the markers of a label are filled, which tells labels of one color apart."""
    return _FILLS[index // len(COLOURS) % len(_FILLS)]


def _legend(figure: Figure, labels: Sequence[str], seeds: Sequence[int], columns: int) -> None:
    """Add a legend below the axes, where long labels have room: colors and markers of labels, dashes of seeds."""
    from matplotlib.lines import Line2D

    colours = [
        Line2D([], [], color=colour, linewidth=3, marker="o", fillstyle=_fill(index))
        for index, colour in enumerate(colour_of(labels).values())
    ]
    dashes = [Line2D([], [], color="grey", linestyle=_DASHES[index % len(_DASHES)]) for index in range(len(seeds))]
    names = [plain(label) for label in labels] + [f"seed {seed}" for seed in seeds]
    legend = figure.legend(
        colours + dashes, names, loc="outside lower center", ncols=columns, fontsize=8, frameon=False
    )
    for text in legend.get_texts():
        text.set_parse_math(False)


def _history(path: Path) -> list[dict[str, str]]:
    """Read a history; a missing file or column, or text instead of a number, is an error that names it."""
    check(path)
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            lines = list(reader)
            columns = reader.fieldnames or []
    except FileNotFoundError as error:
        raise MissingFile(f"{path}: no such file; train this run first") from error
    missing = [column for column in _READ if column not in columns]
    if missing:
        raise DamagedFile(f"{path}: the column {missing[0]!r} is missing; delete the file and train this run again")
    for line in lines:
        try:  # validation, and the loss before the first step, may be empty
            int(line["epoch"]), float("0" if line["loss"] == "" else line["loss"]), float(line["val_cider_d"] or 0)
        except (TypeError, ValueError) as error:
            raise DamagedFile(f"{path}: {error} in a row of the history; delete it and train this run again") from error
    return lines
