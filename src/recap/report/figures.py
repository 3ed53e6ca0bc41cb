"""Figures of scores: learning curves of all runs and scores over a setting, with their numbers; and the flat summary.

Axes and numbers are in percent, as in tables.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from textwrap import fill
from typing import TYPE_CHECKING, Any

from recap.core.checksums import check
from recap.core.documents import read_json, write_json
from recap.core.errors import DamagedFile, MissingFile, RecapError
from recap.core.files import atomic_path, cell, csv_text, write_text
from recap.settings.figures import Figure
from recap.settings.metrics import score_info
from recap.settings.tables import column_info
from recap.statistics.scores import read_metrics
from recap.tables.contact_sheet import COLOURS, colour_of
from recap.tables.text import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

CURVE_COLUMNS = ("label", "seed", "stage", "epoch", "loss", "val_cider_d")
SWEEP_COLUMNS = ("metric", "line", "x", "mean", "low", "high", "runs")
_READ = CURVE_COLUMNS[3:]
_SCALE = 100  # of validation CIDEr-D, as in tables
_SECOND = "scst"
_DASHES = ("solid", "dashed", "dotted", "dashdot")  # of lines, where colors repeat
_SHORT = 60  # characters of labels of which two stand side by side in the legend
_PANELS = 3  # side by side
_LEVEL = 0.95
_MARKERS = "osD^vP*X"

Number = tuple[str, str, float, float | None, float | None, float | None, int]  # as SWEEP_COLUMNS


def write_summary(*, spec: dict[str, Any], scores: Path, out: Path) -> None:
    """Write ``{"<table>.<row>.<metric>": mean over seeds}`` on the scale of tables, for ``dvc metrics diff``.

    ``spec`` is ``{"rows": {"<table>.<row>": [run path, ...]}}``, run paths relative to ``scores``. A metric that is
    missing for a seed has no mean; it is left out, not counted as 0.
    """
    summary: dict[str, float] = {}
    for row, runs in spec["rows"].items():
        seeds = [read_metrics(scores / run).scores for run in runs]
        for metric in seeds[0]:
            values = [value for seed in seeds if (value := seed.get(metric)) is not None]
            if len(values) == len(seeds):
                summary[f"{row}.{metric}"] = round(column_info(metric).scale * fmean(values), 6)
    write_json(out, summary)


# ----------------------------------------------------------------------------------------------- learning curves


@dataclass(frozen=True)
class Curve:
    """One training stage of one seed: the rows of its history, as text by column; it continues the run ``after``."""

    label: str
    seed: int
    stage: str
    lines: list[dict[str, str]]
    path: str = ""
    after: str | None = None

    def points(self) -> dict[int, float]:
        """Return epoch -> validation CIDEr-D, in percent, of every epoch that was validated."""
        validated = (line for line in self.lines if line["val_cider_d"])
        return {int(line["epoch"]): _SCALE * float(line["val_cider_d"]) for line in validated}


def write_curves(*, spec: Mapping[str, Any], runs: Path, out: Path, figure: Path) -> None:
    """Write the learning curves of all runs: a CSV with one row per epoch, and validation CIDEr-D as a figure.

    ``spec`` is ``{"runs": [{"label": text, "seed": n, "stage": "xe" or "scst", "path": folder below `runs`, "after":
    path of the run that it continues, or None}, ...]}``; labels get their colors in this order. ``figure`` is the PNG.
    """
    curves = [Curve(lines=_history(runs / run["path"] / "history.csv"), **run) for run in spec["runs"]]
    lines = []
    for curve in curves:
        points = curve.points()
        for line in curve.lines:
            percent = points.get(int(line["epoch"]))
            value = "" if percent is None else f"{percent:.6g}"
            lines.append([curve.label, curve.seed, curve.stage, line["epoch"], line["loss"], value])
    draw_curves(curves, figure)
    write_text(out, csv_text([CURVE_COLUMNS, *lines]))


def draw_curves(curves: Sequence[Curve], figure: Path) -> None:
    """Draw validation CIDEr-D by epoch: the mean over the seeds of a label, and a band from the lowest to the highest.

    Epochs of the second stage follow those of the first. Where colors repeat, lines have another dash.
    """
    from matplotlib.ticker import MaxNLocator

    colours = colour_of(curve.label for curve in curves)
    columns = 2 if max(map(len, colours), default=0) <= _SHORT else 1
    drawing = _drawing(9, 4.8 + 0.2 * -(-len(colours) // columns))  # inches; of the legend, too
    axes = drawing.add_subplot()
    epochs = {curve.path: len(curve.lines) for curve in curves}
    for index, (label, colour) in enumerate(colours.items()):
        dash = _DASHES[index // len(COLOURS) % len(_DASHES)]
        axes.plot([], [], color=colour, linestyle=dash, marker="o", label=plain(label))  # also without an epoch yet
        for stage in dict.fromkeys(curve.stage for curve in curves if curve.label == label):
            seeds: dict[int, list[float]] = {}
            for curve in (each for each in curves if (each.label, each.stage) == (label, stage)):
                start = epochs.get(curve.after, 0) if curve.after else 0
                for epoch, value in curve.points().items():
                    seeds.setdefault(start + epoch, []).append(value)
            at = sorted(seeds)
            marker = "^" if stage == _SECOND else "o"
            axes.plot(at, [fmean(seeds[x]) for x in at], color=colour, linestyle=dash, marker=marker, markersize=4)
            axes.fill_between(
                at, [min(seeds[x]) for x in at], [max(seeds[x]) for x in at], color=colour, alpha=0.15, lw=0
            )
    axes.set_title("Validation CIDEr-D after each epoch: mean over seeds, band from the lowest to the highest")
    self_critical = any(curve.stage == _SECOND for curve in curves)
    axes.set_xlabel("epoch" + ("\n(triangles: self-critical, after cross-entropy)" if self_critical else ""))
    axes.set_ylabel("CIDEr-D, percent (maximum 1,000)")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
    handles, labels = axes.get_legend_handles_labels()
    _save(drawing, handles, labels, columns, figure)


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


# ----------------------------------------------------------------------------------------------- scores over a setting


def write_sweep(*, figure: Figure, statistics: Path, png: Path, out: Path) -> None:
    """Draw scores over a setting, such as the share of training pairs: one panel per metric, one line per model.

    ``statistics`` is the folder with the tables' ``<table>.json``. The CSV has the mean over the runs, and its 95 % t
    interval where there are several.
    """
    rows: dict[tuple[str, str], Mapping[str, Any]] = {}
    for table in sorted({point.table for line in figure.lines for point in line.points}):
        file = statistics / f"{table}.json"
        check(file)
        rows |= {(table, row["id"]): row for row in read_json(file)["rows"]}
    numbers = list(_numbers(figure, rows))
    _draw_sweep(figure, numbers, png)
    write_text(out, csv_text([SWEEP_COLUMNS, *(map(cell, number) for number in numbers)]))


def _numbers(figure: Figure, rows: Mapping[tuple[str, str], Mapping[str, Any]]) -> Iterator[Number]:
    """Yield one line of the CSV per metric and point."""
    for metric in figure.metrics:
        for line in figure.lines:
            for point in line.points:
                row = rows.get((point.table, point.row))
                if row is None or metric not in row["cells"]:
                    raise RecapError(f"{point.table}.json: no {metric} of row {point.row!r}; the table needs both")
                values = [score_info(metric).scale * value for value in row["cells"][metric]["values"].values()]
                mean = fmean(values) if values else None
                yield metric, plain(line.label), point.x, mean, *_interval(values), len(values)


def _interval(values: list[float]) -> tuple[float | None, float | None]:
    """Return the t interval of the mean over the runs; of one run there is none."""
    if len(values) < 2:
        return None, None
    from scipy import stats

    half = float(stats.t.ppf((1 + _LEVEL) / 2, len(values) - 1)) * stdev(values) / len(values) ** 0.5
    return fmean(values) - half, fmean(values) + half


def _draw_sweep(figure: Figure, numbers: list[Number], png: Path) -> None:
    across = min(_PANELS, len(figure.metrics))
    down = -(-len(figure.metrics) // across)
    runs = " or ".join(map(str, sorted({number[6] for number in numbers if number[6]})))
    bars = f"Mean over runs, bars: 95 % t interval of the mean over {runs} runs; none where there is one run."
    heading = "\n".join(fill(plain(text), 26 + 56 * across) for text in (figure.title, figure.scale, bars) if text)
    drawing = _drawing(4.2 * across + 1.8, 3.4 * down + 0.9 + 0.18 * (1 + heading.count("\n")))
    panels = drawing.subplots(down, across, squeeze=False)
    colours = colour_of(line.label for line in figure.lines)
    ticks = sorted({point.x for line in figure.lines for point in line.points})
    for panel, metric in zip(panels.flat, figure.metrics, strict=False):
        for index, line in enumerate(figure.lines):
            points = [
                number for number in numbers if number[:2] == (metric, plain(line.label)) and number[3] is not None
            ]
            _draw_line(
                panel, points, colours[line.label], _MARKERS[index % len(_MARKERS)], _aside(figure, index, ticks)
            )
        panel.set_title(metric)
        panel.set_xlabel(figure.x_label)
        panel.grid(alpha=0.3)
        if figure.logarithmic:
            panel.set_xscale("log")
            panel.minorticks_off()
        panel.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    for panel in panels.flat[len(figure.metrics) :]:
        panel.set_axis_off()
    # Labels and titles come from files: a dollar sign is one.
    drawing.suptitle(heading, fontsize=10, wrap=True).set_parse_math(False)
    handles, labels = panels.flat[0].get_legend_handles_labels()
    _save(drawing, handles, labels, 2 * across, png)


def _aside(figure: Figure, index: int, ticks: Sequence[float]) -> Callable[[float], float]:
    """Return where on the axis a line draws a number: lines stand a little apart, so that no bar hides another."""
    steps = index - (len(figure.lines) - 1) / 2
    if figure.logarithmic:
        return lambda x: x * 1.02**steps
    return lambda x: x + 0.008 * steps * (ticks[-1] - ticks[0])


def _draw_line(panel: Axes, points: list[Number], colour: str, marker: str, aside: Callable[[float], float]) -> None:
    """Draw one line with its intervals; where there is one run, the point alone."""
    means = [mean or 0.0 for _, _, _, mean, *_ in points]
    ends = [(mean if low is None else low, mean if high is None else high) for *_, mean, low, high, _ in points]
    reach = [[mean - (low or 0.0) for mean, (low, _) in zip(means, ends, strict=True)]]
    reach.append([(high or 0.0) - mean for mean, (_, high) in zip(means, ends, strict=True)])
    label = points[0][1] if points else None
    style: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 5, "capsize": 3, "label": label}
    panel.errorbar([aside(number[2]) for number in points], means, yerr=reach, **style)


# ----------------------------------------------------------------------------------------------- files


def _drawing(width: float, height: float) -> Drawing:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Drawing

    return FigureCanvasAgg(Drawing(figsize=(width, height), dpi=150, layout="constrained")).figure


def _save(drawing: Drawing, handles: Sequence[Any], labels: Iterable[str], columns: int, png: Path) -> None:
    """Add a legend below, where long labels have room, and write PNG, PDF and SVG; equal drawings give equal bytes."""
    from matplotlib import rc_context

    legend = drawing.legend(
        handles, labels, loc="outside lower center", ncols=columns, fontsize=8, frameon=False, handlelength=4
    )
    for text in legend.get_texts():
        text.set_parse_math(False)
    no_dates = {"png": {}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}
    with rc_context({"svg.hashsalt": "recap", "pdf.fonttype": 42}):
        for kind, metadata in no_dates.items():
            with atomic_path(png.with_suffix(f".{kind}")) as temporary:
                drawing.savefig(temporary, format=kind, metadata=metadata)
