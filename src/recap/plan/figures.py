"""Plans figures: which rows of which planned tables are the points of which line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

from recap.core.errors import ConfigError, UnknownName, nearest
from recap.plan.run import file_name
from recap.settings import Row, Table
from recap.settings.figures import Figure, FigureFile, Line, Point

SpecOf = Callable[[str, str], dict[str, Any]]  # section and name -> the settings at the profile's scale


def planned_figure(name: str, file: FigureFile, *, tables: Mapping[str, Table], scale: str, spec_of: SpecOf) -> Figure:
    """Return a figure whose tables are planned, with the numbers on its axis at the profile's scale.

    Args:
        name, file: of the figure.
        tables: the planned tables.
        scale: sentence about what was replaced in the rows of its tables.
        spec_of: section and name -> the settings at the profile's scale.
    """
    lines: dict[str, list[Point]] = {key: [] for key in file.labels}
    for table, ids in _drawn(name, file):
        rows = {row.id: row for row in tables[table].rows}
        for row_id in ids:
            if row_id not in rows:
                raise UnknownName(f"figure {name!r}: table {table!r} has no row {row_id!r}; {nearest(row_id, rows)}")
            point = Point(x=_number(name, file, rows[row_id], spec_of), table=file_name(table), row=row_id)
            lines[row_id if file.line_of == "row" else table].append(point)
    return Figure(
        title=file.title,
        scale=scale,
        x_label=file.x.label,
        logarithmic=file.x.logarithmic,
        metrics=file.metrics,
        lines=[Line(label=file.labels[key], points=sorted(points, key=lambda p: p.x)) for key, points in lines.items()],
    )


def _drawn(name: str, file: FigureFile) -> list[tuple[str, list[str]]]:
    """Return the tables of a figure, each with the ids of its rows that are drawn."""
    if file.line_of == "row":
        return [(table, list(file.labels)) for table in file.tables]
    unknown = [table for table in file.labels if table not in file.tables]
    if unknown:
        raise UnknownName(f"figure {name!r}: labels: {unknown[0]!r} is none of its tables")
    return [(table, file.rows) for table in file.labels]


def _number(name: str, file: FigureFile, row: Row, spec_of: SpecOf) -> float:
    """Return the number of a row on the axis."""
    section, *keys = file.x.setting.split(".")
    values = spec_of(f"{section}s", getattr(row, section))
    try:
        found: Any = reduce(lambda below, key: below[key], keys, values)
        return float(found) * file.x.factor
    except (KeyError, TypeError, ValueError):
        raise ConfigError(f"figure {name!r}: row {row.id!r} has no number {file.x.setting!r}") from None
