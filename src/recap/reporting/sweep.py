"""Figures of scores over a setting, such as the share of training pairs: one panel per metric, one line per model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from recap.core.checksums import check
from recap.core.documents import read_json
from recap.core.errors import RecapError
from recap.core.files import atomic_path, cell, csv_text, write_text
from recap.reporting.colours import colour_of
from recap.reporting.text import plain
from recap.settings.figures import Figure
from recap.settings.metrics import score_info

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = ("metric", "line", "x", "mean", "low", "high", "runs")
_PANELS = 3  # side by side
_LEVEL = 0.95
_MARKERS = "osD^vP*X"


def write_sweep(*, figure: Figure, statistics: Path, png: Path, out: Path) -> None:
    """Draw a figure as PNG and write its numbers as CSV, on the scale of the metric (percent for most).

    Args:
        figure: lines, each with points that name rows of tables.
        statistics: folder with the tables' ``<table>.json``.
        png: the figure.
        out: the CSV: mean over the runs, and its 95 % t interval where there are several.
    """
    rows = list(_numbers(figure, _read(figure, statistics)))
    _draw(figure, rows, png)
    write_text(out, csv_text([COLUMNS, *(map(cell, row) for row in rows)]))


Number = tuple[str, str, float, float | None, float | None, float | None, int]  # as COLUMNS


def _read(figure: Figure, folder: Path) -> dict[tuple[str, str], Mapping[str, Any]]:
    """Return the statistics of every row in use by table and id."""
    found: dict[tuple[str, str], Mapping[str, Any]] = {}
    for table in sorted({point.table for line in figure.lines for point in line.points}):
        file = folder / f"{table}.json"
        check(file)
        found |= {(table, row["id"]): row for row in read_json(file)["rows"]}
    return found


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


def _draw(figure: Figure, rows: list[Number], png: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Drawing

    across = min(_PANELS, len(figure.metrics))
    down = -(-len(figure.metrics) // across)
    heading = _heading(figure, rows, across)
    beside = 0.9 + 0.18 * (1 + heading.count("\n"))  # inches of heading and legend
    canvas = FigureCanvasAgg(Drawing(figsize=(4.2 * across + 1.8, 3.4 * down + beside), dpi=150, layout="constrained"))
    panels = canvas.figure.subplots(down, across, squeeze=False)
    colours = colour_of(line.label for line in figure.lines)
    for panel, metric in zip(panels.flat, figure.metrics, strict=False):
        for index, line in enumerate(figure.lines):
            found = [row for row in rows if row[:2] == (metric, plain(line.label)) and row[3] is not None]
            _line(panel, found, colours[line.label], _MARKERS[index % len(_MARKERS)], _aside(figure, index))
        panel.set_title(metric)
        panel.set_xlabel(figure.x_label)
        panel.grid(alpha=0.3)
        ticks = sorted({point.x for line in figure.lines for point in line.points})
        if figure.logarithmic:
            panel.set_xscale("log")
            panel.minorticks_off()
        panel.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    for panel in panels.flat[len(figure.metrics) :]:
        panel.set_axis_off()
    handles, labels = panels.flat[0].get_legend_handles_labels()
    # Below the panels: beside them it would stand in the heading, which is as wide as the figure.
    legend = canvas.figure.legend(handles, labels, loc="outside lower center", ncols=2 * across, frameon=False)
    # Labels and titles come from files: a dollar sign is one.
    title = canvas.figure.suptitle(heading, fontsize=10, wrap=True)
    for text in [title, *legend.get_texts()]:
        text.set_parse_math(False)
    with atomic_path(png) as temporary:
        canvas.figure.savefig(temporary, format="png")


def _aside(figure: Figure, index: int) -> Callable[[float], float]:
    """Return where on the axis a line draws a number: lines stand a little apart, so that no bar hides another."""
    ticks = [point.x for line in figure.lines for point in line.points]
    steps = index - (len(figure.lines) - 1) / 2
    if figure.logarithmic:
        return lambda x: x * 1.02**steps
    return lambda x: x + 0.008 * steps * (max(ticks) - min(ticks))


def _line(panel: Axes, rows: list[Number], colour: str, marker: str, aside: Callable[[float], float]) -> None:
    """Draw one line with its intervals; where there is one run, the point alone."""
    means = [row[3] or 0.0 for row in rows]
    lows = [mean - (row[4] if row[4] is not None else mean) for mean, row in zip(means, rows, strict=True)]
    highs = [(row[5] if row[5] is not None else mean) - mean for mean, row in zip(means, rows, strict=True)]
    panel.errorbar(
        [aside(row[2]) for row in rows],
        means,
        yerr=[lows, highs],
        color=colour,
        marker=marker,
        markersize=5,
        capsize=3,
        label=rows[0][1] if rows else None,
    )


def _heading(figure: Figure, rows: list[Number], across: int) -> str:
    """Return title, scale and what the bars are, broken into lines that fit."""
    from textwrap import fill

    runs = sorted({row[6] for row in rows if row[6]})
    spread = f"bars: 95 % t interval of the mean over {' or '.join(map(str, runs))} runs; none where there is one run"
    texts = (figure.title, figure.scale, f"Mean over runs, {spread}.")
    return "\n".join(fill(plain(text), 26 + 56 * across) for text in texts if text)
