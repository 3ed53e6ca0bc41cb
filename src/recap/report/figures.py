"""Figures of scores: learning curves of all runs and scores over a setting,
with their numbers; and the flat summary.

Axes and numbers are in percent, as in tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from statistics import fmean, stdev
from textwrap import fill
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.ticker import MaxNLocator
from pandas import DataFrame
from scipy import stats

from recap.core.checksums import check, record
from recap.core.documents import read_json, write_json
from recap.core.errors import RecapError
from recap.core.files import atomic_path, csv_text, csv_value, reading, write_text
from recap.settings.figures import Figure
from recap.settings.metrics import score_info
from recap.settings.specs import CurvesSpec
from recap.settings.tables import column_info
from recap.statistics.comparison import LEVEL
from recap.statistics.results import RowResult, TableResult
from recap.statistics.scores import read_metrics
from recap.tables.colours import COLOURS, colour_of
from recap.tables.text import plain

CURVE_COLUMNS = ("label", "seed", "stage", "epoch", "loss", "val_cider_d")
_READ = ("epoch", "loss", "val_cider_d")
_SCALE = 100  # of validation CIDEr-D, as in tables
_SECOND = "scst"
_DASHES = ("solid", "dashed", "dotted", "dashdot")
_SHORT = 60  # characters of labels of which two stand side by side in the legend
_PANELS = 3  # side by side
_MARKERS = "osD^vP*X"


def write_summary(*, rows: Mapping[str, Sequence[str]], scores: Path, out: Path) -> None:
    """Write ``{"<table>.<row>.<metric>": mean over seeds}`` for ``dvc metrics diff``.

    ``rows``: ``<table>.<row>`` -> paths of its runs below ``scores``.
    """
    summary: dict[str, float] = {}
    for row, runs in rows.items():
        seeds = [read_metrics(scores / run).scores for run in runs]
        for metric in seeds[0]:
            found = [seed.get(metric) for seed in seeds]
            values = [value for value in found if value is not None]
            if len(values) == len(seeds):  # what is missing is not counted as 0
                summary[f"{row}.{metric}"] = round(column_info(metric).scale * fmean(values), 6)
    write_json(out, summary)


def write_curves(
    *,
    spec: CurvesSpec,
    runs: Path,
    out: Path,
    figure: Path,
    epoch_hours: Mapping[str, float] | None = None,
) -> None:
    """Write the learning curves of all runs:
    a CSV with one row per epoch, and validation CIDEr-D as a PNG, `figure`.

    ``epoch_hours``: path of a run -> hours of an epoch, over which it is drawn in place of epochs.
    """
    histories = {run.path: _history(runs / run.path / "history.csv") for run in spec.runs}
    width = epoch_hours or dict.fromkeys(histories, 1.0)  # of an epoch on the axis
    curves = []
    for run in spec.runs:
        history = histories[run.path]
        # the second stage follows the first
        start = len(histories[run.after]) * width[run.after] if run.after in histories else 0.0
        place = start + history.epoch * width[run.path]
        curves.append(history.assign(**vars(run), place=place))
    lines = pd.concat(curves, ignore_index=True)
    axis = "hours" if epoch_hours else "epoch"
    draw_curves(lines, [run.label for run in spec.runs], figure, axis=axis)
    values = lines.percent.map(lambda percent: "" if pd.isna(percent) else f"{percent:.6g}")
    lines = lines.assign(val_cider_d=values)[list(CURVE_COLUMNS)]
    write_text(out, csv_text([CURVE_COLUMNS, *lines.to_numpy().tolist()]))


def draw_curves(
    lines: DataFrame, labels: Iterable[str], figure: Path, *, axis: str = "epoch"
) -> None:
    """Draw validation CIDEr-D by epoch, or by hours: mean over the seeds
    of a label, and a bar from the lowest to the highest."""
    colours = colour_of(labels)
    columns = 2 if max(map(len, colours), default=0) <= _SHORT else 1
    height = 4.8 + 0.2 * -(-len(colours) // columns)  # inches; of the legend, too
    drawing = Drawing(figsize=(9, height), dpi=150, layout="constrained")
    axes = drawing.add_subplot()
    for index, (label, colour) in enumerate(colours.items()):
        style = dict[str, Any](
            color=colour, linestyle=_DASHES[index // len(COLOURS) % len(_DASHES)], markersize=4
        )
        axes.plot([], [], marker="o", label=plain(label), **style)  # also without an epoch yet
        apart = 0.2 * ((index + 0.5) / len(colours) - 0.5)  # so that no bar hides another
        for stage, of_stage in lines[lines.label == label].groupby("stage", sort=False):
            validated = of_stage.dropna(subset="percent")
            places = validated.place + (apart if axis == "epoch" else 0)
            seeds = validated.percent.groupby(places).agg(["mean", "min", "max"])
            ends = [seeds["mean"] - seeds["min"], seeds["max"] - seeds["mean"]]
            axes.errorbar(
                seeds.index,
                seeds["mean"],
                yerr=ends,
                marker="^" if stage == _SECOND else "o",
                **style,
            )
    title = "Validation CIDEr-D after each epoch"
    if lines.duplicated(["label", "stage", "place"]).any():  # by several seeds
        title += "\nmean over the seeds that reached it, bar from the lowest to the highest"
    axes.set_title(title)
    second = (lines.stage == _SECOND).any()
    axes.set_xlabel(f"{axis}\n(triangles: self-critical, after cross-entropy)" if second else axis)
    axes.set_ylabel("CIDEr-D, percent (maximum 1,000)")
    if axis == "epoch":
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.grid(alpha=0.3)
    _save(drawing, axes, columns, figure)


def _history(path: Path) -> DataFrame:
    """Read a history: epoch, loss as text, validation CIDEr-D in percent (NaN: none)."""
    check(path)
    with reading(
        path,
        RecapError,
        missing="train this run first",
        damaged="delete it and train this run again",
    ):
        lines = pd.read_csv(path, usecols=list(_READ), dtype=str, keep_default_na=False)
        # is text that the CSV repeats; may be empty before the first step
        pd.to_numeric(lines.loss)
        percent = _SCALE * pd.to_numeric(lines.val_cider_d)
        return lines[["loss"]].assign(epoch=lines.epoch.astype(int), percent=percent)


def write_sweep(*, figure: Figure, statistics: Path, png: Path, out: Path) -> None:
    """Draw scores over a setting, such as the share of training pairs:
    one panel per metric, one line per model."""
    rows: dict[tuple[str, str], RowResult] = {}
    tables: set[str] = set()
    for line in figure.lines:
        tables |= {point.table for point in line.points}
    for table in tables:
        file = statistics / f"{table}.json"
        check(file)
        rows |= {(table, row.id): row for row in read_json(file, TableResult).rows}
    points = list(_points(figure, rows))
    _draw_sweep(figure, points, png)
    lines = [map(csv_value, astuple(point)) for point in points]
    write_text(out, csv_text([SweepPoint.__annotations__, *lines]))
    record(out)


@dataclass(frozen=True)
class SweepPoint:
    """A metric of a row at a value of the axis: a line of the CSV."""

    metric: str
    line: str
    x: float
    mean: float | None  #: over the runs
    low: float | None  #: of the t interval of the mean; None of one run
    high: float | None
    runs: int


def _points(figure: Figure, rows: Mapping[tuple[str, str], RowResult]) -> Iterator[SweepPoint]:
    """Yield the points of each metric and line."""
    for metric in figure.metrics:
        scale = score_info(metric).scale
        for line in figure.lines:
            for point in line.points:
                row = rows.get((point.table, point.row))
                if row is None or metric not in row.cells:
                    raise RecapError(
                        f"{point.table}.json: no {metric} of row {point.row!r}; the table needs "
                        "both"
                    )
                values = [scale * value for value in row.cells[metric].values.values()]
                mean = fmean(values) if values else None
                low, high = _interval(values)
                label = plain(line.label)
                yield SweepPoint(metric, label, point.x, mean, low, high, len(values))


def _interval(values: Sequence[float]) -> tuple[float | None, float | None]:
    """Return the t interval of the mean over the runs; of one run there is none."""
    count = len(values)
    if count < 2:
        return None, None
    half = float(stats.t.ppf((1 + LEVEL) / 2, count - 1)) * stdev(values) / count**0.5
    return fmean(values) - half, fmean(values) + half


def _draw_sweep(figure: Figure, points: Sequence[SweepPoint], png: Path) -> None:
    across = min(_PANELS, len(figure.metrics))
    down = -(-len(figure.metrics) // across)
    runs = " or ".join(map(str, sorted({point.runs for point in points} - {0})))
    bars = (
        f"Mean over runs, bars: 95 % t interval of the mean over {runs} runs; none where there is "
        "one run."
    )
    heading = "\n".join(
        fill(plain(text), 26 + 56 * across) for text in (figure.title, figure.scale, bars) if text
    )
    size = 4.2 * across + 1.8, 3.4 * down + 0.9 + 0.18 * (1 + heading.count("\n"))
    drawing = Drawing(figsize=size, dpi=150, layout="constrained")
    panels = drawing.subplots(down, across, squeeze=False)
    for panel, metric in zip(panels.flat, figure.metrics, strict=False):
        _draw_panel(panel, figure, metric, [each for each in points if each.metric == metric])
    for panel in panels.flat[len(figure.metrics) :]:
        panel.set_axis_off()
    # Labels and titles come from files: a dollar sign is one.
    drawing.suptitle(heading, fontsize=10, wrap=True).set_parse_math(False)
    _save(drawing, panels.flat[0], 2 * across, png)


def _draw_panel(panel: Axes, figure: Figure, metric: str, points: Sequence[SweepPoint]) -> None:
    colours = colour_of(line.label for line in figure.lines)
    ticks = sorted({point.x for point in points})
    for index, (label, colour) in enumerate(colours.items()):
        shown = []
        for point in points:
            if point.line == plain(label) and point.runs:
                shown.append([point.x, point.mean, point.low, point.high])
        x, mean, low, high = np.array(shown, float).reshape(-1, 4).T  # None is NaN
        # Lines stand a little apart, so that no bar hides another.
        steps = index - (len(colours) - 1) / 2
        apart = x + 0.008 * steps * (ticks[-1] - ticks[0])
        if figure.logarithmic:
            apart = 1.02**steps * x
        panel.errorbar(
            apart,
            mean,
            yerr=[mean - low, high - mean],
            label=plain(label) if shown else None,
            color=colour,
            marker=_MARKERS[index % len(_MARKERS)],
            markersize=5,
            capsize=3,
        )
    panel.set_title(metric)
    panel.set_xlabel(figure.x_label)
    panel.grid(alpha=0.3)
    if figure.logarithmic:
        panel.set_xscale("log")
        panel.minorticks_off()
    panel.set_xticks(ticks, [f"{tick:g}" for tick in ticks])


def _save(drawing: Drawing, axes: Axes, columns: int, png: Path) -> None:
    """Add a legend below, where long labels have room, and write PNG, PDF and SVG.

    Equal drawings give equal bytes.
    """
    handles, labels = axes.get_legend_handles_labels()
    legend = drawing.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=columns,
        fontsize=8,
        frameon=False,
        handlelength=4,
    )
    for text in legend.get_texts():
        text.set_parse_math(False)
    no_dates = {"png": {}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}
    with rc_context({"svg.hashsalt": "recap", "pdf.fonttype": 42}):
        for kind, metadata in no_dates.items():
            with atomic_path(png.with_suffix(f".{kind}")) as temporary:
                drawing.savefig(temporary, format=kind, metadata=metadata)
    record(*(png.with_suffix(f".{kind}") for kind in no_dates))
