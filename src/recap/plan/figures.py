"""Plans figures: scores of rows over a setting, and what a table's trained models look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from recap.core.errors import ConfigError, UnknownName, nearest
from recap.plan.run import Run, file_name
from recap.plan.scaling import check_scales
from recap.settings import Row
from recap.settings.figures import Figure, FigureFile, Line, ModelFigure, Point

if TYPE_CHECKING:
    from recap.plan.plan import Plan, ResolvedRow


def sweeps(plan: Plan, files: Mapping[str, FigureFile]) -> dict[str, Figure]:
    """Return the figures of scores over a setting, by their names."""
    return {name: _sweep(plan, name, file) for name, file in files.items()}


def _sweep(plan: Plan, name: str, file: FigureFile) -> Figure:
    """Return a figure whose tables are planned, with its axis at the profile's scale."""
    by_row = file.line_of == "row"
    if not by_row:
        for table in file.labels:
            if table not in file.tables:
                raise UnknownName(f"figure {name!r}: labels: {table!r} is none of its tables")
    lines: dict[str, list[Point]] = {key: [] for key in file.labels}
    for table in file.tables if by_row else file.labels:
        rows = {row.id: row for row in plan.tables[table].rows}
        for row_id in file.labels if by_row else file.rows:
            if row_id not in rows:
                raise UnknownName(
                    f"figure {name!r}: table {table!r} has no row {row_id!r}; "
                    f"{nearest(row_id, rows)}"
                )
            x = _setting(plan, name, rows[row_id], file.x.setting) * file.x.factor
            point = Point(x=x, table=file_name(table), row=row_id)
            lines[row_id if by_row else table].append(point)
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


def _setting(plan: Plan, figure: str, row: Row, setting: str) -> float:
    """Return the number of a row's setting, ``recipe.xe.epochs``."""
    section, *keys = setting.split(".")
    value: Any = plan.settings.get(f"{section}s", getattr(row, section)).model_dump(mode="json")
    try:
        for key in keys:
            value = value[key]
        return float(value)
    except (KeyError, TypeError, ValueError):
        raise ConfigError(f"figure {figure!r}: row {row.id!r} has no number {setting!r}") from None


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


def model_figures(plan: Plan) -> list[PlannedFigure]:
    """Return the figures that the tables' files list.

    What is not drawn or run at the scale is left out.
    """
    planned: dict[str, PlannedFigure] = {}
    for table_id in plan.tables:
        for settings in plan.settings.get("tables", table_id).figures:
            where = f"table {table_id!r}: figure of kind {settings.kind!r}"
            check_scales(plan.params, settings.scales, where)
            rows = _figure_rows(plan.table_rows(table_id), settings)
            here = settings.scales is None or plan.profile.scale in settings.scales
            if not rows or not here:
                continue
            _check_rows(settings, [each.row for each in rows], where)
            figure = _model_figure(plan, table_id, settings, rows)
            if planned.setdefault(figure.name, figure) is not figure:
                raise ConfigError(f"{where}: it is there twice; give one of them a `name`")
    return list(planned.values())


def _figure_rows(rows: list[ResolvedRow], settings: ModelFigure) -> list[ResolvedRow]:
    """Return the rows that a figure shows: those that it names, else all of single models."""
    if settings.rows:
        return [each for each in rows if each.row.id in settings.rows]
    return [each for each in rows if not each.row.ensemble]


def _check_rows(settings: ModelFigure, rows: list[Row], where: str) -> None:
    """Refuse rows that one figure cannot show together."""
    if settings.most_rows is not None and len(rows) > settings.most_rows:
        raise ConfigError(
            f"{where}: it shows {settings.most_rows} at most; name that many of its rows in `rows`"
        )
    first = rows[0]
    for row in rows[1:]:
        same = row.dataset == first.dataset
        if settings.needs_models:
            same = same and row.features == first.features
        if not same:
            raise ConfigError(
                f"{where}: {first.id!r} and {row.id!r} differ in data; name one in `rows`"
            )
    labels = [row.label for row in rows]
    if len(set(labels)) < len(labels):
        raise ConfigError(
            f"{where}: two of its rows have the same label ({', '.join(labels)}); change one"
        )


def _model_figure(
    plan: Plan, table_id: str, settings: ModelFigure, rows: list[ResolvedRow]
) -> PlannedFigure:
    table = plan.tables[table_id]
    begin = file_name(table_id)
    return PlannedFigure(
        settings=settings,
        table=table_id,
        begin=f"{begin}_{settings.name}" if settings.name else begin,
        runs=tuple(plan.training_of(each.runs[0]) for each in rows),
        labels=tuple(each.row.label for each in rows),
        heading=f"{table.title}  |  {table.scale}" if table.scale else table.title,
    )
