"""All pairs of a table's rows on a metric: differences, and their p."""

from __future__ import annotations

from collections.abc import Mapping

from recap.core.errors import counted
from recap.settings.tables import column_info
from recap.statistics.comparison import SIGNIFICANT
from recap.statistics.results import Comparison, NoComparison, TableResult
from recap.tables.text import (
    Block,
    Cell,
    Line,
    TextTable,
    columns_of,
    number_text,
    p_text,
    plain,
)

Pairs = Mapping[tuple[int, int], Comparison | NoComparison]  # by numbers of rows, the lower first


def pairs_table(statistics: TableResult) -> TextTable:
    """Return a square for each metric: differences above its diagonal, p below."""
    rows = statistics.rows
    metrics = list(dict.fromkeys(pair.metric for pair in statistics.pairs))
    unit = "both" if "both" in statistics.family.units else "images"
    number_of = {row.id: number for number, row in enumerate(rows)}
    numbers = [str(number) for number in range(1, len(rows) + 1)]
    table = TextTable("All pairs", plain(statistics.short_scale), columns_of(numbers))
    for metric in metrics:
        pairs = {}
        for pair in statistics.pairs:
            if pair.metric == metric:
                pairs[number_of[pair.first], number_of[pair.second]] = pair.comparison
        lines = []
        for at, row in enumerate(rows):
            cells = [_cell(metric, pairs, at, other, unit) for other in range(len(rows))]
            lines.append(Line(f"{at + 1} {plain(row.label)}", cells))
        table.blocks.append(Block(metric, lines))
    over = "images and runs" if unit == "both" else "images"
    table.notes = [
        "Above the diagonal: the row of the line minus that of the column. "
        f"Below it: p over {over}, Holm-corrected over {counted(len(statistics.pairs), 'pair')}.",
    ]
    if unit == "images":
        table.notes.append("One seed allows no test over runs, and nothing is marked.")
    if any(pair.comparison.mark for pair in statistics.pairs):
        table.notes.append(f"†: p < {SIGNIFICANT:g} over images, runs and both.")
    return table


def _cell(metric: str, pairs: Pairs, row: int, column: int, unit: str) -> Cell:
    """Return what two rows differ by on a metric, or the p of it below the diagonal."""
    if row == column:
        return Cell("")
    if row > column:
        tested = pairs[column, row]
        return Cell(p_text(tested.tests[unit].p_holm if isinstance(tested, Comparison) else None))
    comparison = pairs[row, column]
    if comparison.difference is None:
        return Cell()
    info = column_info(metric)
    minus = -info.scale * comparison.difference  # the first minus the second
    return Cell(number_text(minus, info.digits, signed=True), dagger=bool(comparison.mark))
