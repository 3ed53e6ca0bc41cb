"""Plans figures: scores of rows over a setting, and what a table's trained models look at."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import attrgetter, getitem
from typing import TYPE_CHECKING, Any

from recap.core.errors import ConfigError, UnknownName, nearest
from recap.plan.run import Run, file_name, row_runs
from recap.plan.scaling import check_scales
from recap.settings.figures import Figure, FigureFile, Line, ModelFigure, Point

if TYPE_CHECKING:
    from recap.plan.run_plan import RunPlan


def planned_figure(plan: RunPlan, name: str, file: FigureFile) -> Figure:
    """Return a figure whose tables are planned, with its axis at the profile's scale."""
    if file.line_of == "table" and (
        unknown := [table for table in file.labels if table not in file.tables]
    ):
        raise UnknownName(f"figure {name!r}: labels: {unknown[0]!r} is none of its tables")
    by_row = file.line_of == "row"
    section, *keys = file.x.setting.split(".")
    lines: dict[str, list[Point]] = {key: [] for key in file.labels}
    for table in file.tables if by_row else file.labels:
        rows = {row.id: row for row in plan.tables[table].rows}
        for row_id in file.labels if by_row else file.rows:
            if row_id not in rows:
                raise UnknownName(
                    f"figure {name!r}: table {table!r} has no row {row_id!r}; "
                    f"{nearest(row_id, rows)}"
                )
            spec: Any = plan.spec(f"{section}s", getattr(rows[row_id], section))
            try:
                x = float(reduce(getitem, keys, spec)) * file.x.factor
            except (KeyError, TypeError, ValueError):
                raise ConfigError(
                    f"figure {name!r}: row {row_id!r} has no number {file.x.setting!r}"
                ) from None
            lines[row_id if by_row else table].append(
                Point(x=x, table=file_name(table), row=row_id)
            )
    return Figure(
        title=file.title,
        scale=plan.scale_text(file.tables),
        x_label=file.x.label,
        logarithmic=file.x.logarithmic,
        metrics=file.metrics,
        lines=[
            Line(label=file.labels[key], points=sorted(points, key=lambda p: p.x))
            for key, points in lines.items()
        ],
    )


@dataclass(frozen=True)
class PlannedFigure:
    """A figure that a table lists."""

    settings: ModelFigure  #: of its kind
    table: str  #: the table that lists it
    begin: str  #: of the names of its files: the table's, and the figure's own where it has one
    runs: tuple[Run, ...]  #: the trainings that it shows, each of its row's first seed
    labels: tuple[str, ...]  #: what the table calls them
    heading: str  #: the table's title, and what was scaled down

    @property
    def name(self) -> str:
        """A name that no other figure of the plan has."""
        return f"{self.begin}_{self.settings.kind}"

    @property
    def files(self) -> dict[str, str]:
        """Name of each file -> its title in the report of the profile, or ""."""
        return {f"{self.begin}_{ending}": title for ending, title in self.settings.files.items()}


def model_figures(plan: RunPlan) -> list[PlannedFigure]:
    """Return the figures that the tables' files list.

    What is not drawn or run at the scale is left out.
    """
    planned: dict[str, PlannedFigure] = {}
    listed = [
        (table_id, settings)
        for table_id in plan.tables
        for settings in plan.get("tables", table_id).figures
    ]
    for table_id, settings in listed:
        table = plan.tables[table_id]
        where = f"table {table_id!r}: figure of kind {settings.kind!r}"
        check_scales(plan.params, settings.scales, where)
        rows = [
            row
            for row in table.rows
            if row.id in settings.rows or not (settings.rows or row.ensemble)
        ]
        if not rows or (settings.scales is not None and plan.profile.scale not in settings.scales):
            continue
        if settings.most_rows is not None and len(rows) > settings.most_rows:
            raise ConfigError(
                f"{where}: it shows {settings.most_rows} at most; name that many of its rows in "
                "`rows`"
            )
        read = attrgetter("dataset", "features") if settings.needs_models else attrgetter("dataset")
        if other := next((row for row in rows if read(row) != read(rows[0])), None):
            raise ConfigError(
                f"{where}: {rows[0].id!r} and {other.id!r} differ in data; name one in `rows`"
            )
        labels = tuple(row.label for row in rows)
        if len(set(labels)) < len(labels):
            raise ConfigError(
                f"{where}: two of its rows have the same label ({', '.join(labels)}); change one"
            )
        figure = PlannedFigure(
            settings=settings,
            table=table_id,
            begin="_".join(filter(None, [file_name(table_id), settings.name])),
            runs=tuple(plan.weights(row_runs(row, plan.seeds[table_id])[0]) for row in rows),
            labels=labels,
            heading="  |  ".join(filter(None, [table.title, table.scale])),
        )
        if planned.setdefault(figure.name, figure) is not figure:
            raise ConfigError(f"{where}: it is there twice; give one of them a `name`")
    return list(planned.values())
