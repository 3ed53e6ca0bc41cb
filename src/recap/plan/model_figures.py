"""Plans the figures that a table lists: which runs and files they are drawn from, and what their files are called."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from operator import attrgetter

from recap.core.errors import ConfigError, UnknownName, nearest
from recap.plan.run import Run, file_name
from recap.settings import Row, Table
from recap.settings.figures import ModelFigure


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


def model_figures(
    table_id: str,
    figures: Iterable[ModelFigure],
    table: Table,
    training: Callable[[Row], Run],
    *,
    scale: str | None,
    known: Collection[str],
) -> list[PlannedFigure]:
    """Return the figures of a planned table; what is not drawn or run at its scale is left out.

    Args:
        table_id: of the table.
        figures: of the table's file.
        table: the planned table.
        training: row -> the training of its first seed.
        scale, known: the plan's scale, if it has one, and the names of all scales.
    """
    planned: dict[str, PlannedFigure] = {}
    for settings in figures:
        where = f"table {table_id!r}: figure of kind {settings.kind!r}"
        for name in settings.scales or []:
            if name not in known:
                raise UnknownName(f"{where}: scales: there is no {name!r}; {nearest(name, known)}")
        rows = [row for row in table.rows if row.id in settings.rows or not (settings.rows or row.ensemble)]
        if not rows or (settings.scales is not None and scale not in settings.scales):
            continue
        if settings.most_rows is not None and len(rows) > settings.most_rows:
            raise ConfigError(f"{where}: it shows {settings.most_rows} at most; name that many of its rows in `rows`")
        read = attrgetter("dataset", "features") if settings.needs_models else attrgetter("dataset")
        other = next((row for row in rows if read(row) != read(rows[0])), None)
        if other is not None:
            raise ConfigError(
                f"{where}: rows {rows[0].id!r} and {other.id!r} have different data sets or features; list two figures "
                "with these in `rows`, one of them with a `name`"
            )
        labels = tuple(row.label for row in rows)
        if len(set(labels)) < len(labels):
            raise ConfigError(f"{where}: two of its rows have the same label ({', '.join(labels)}); change one")
        figure = PlannedFigure(
            settings=settings,
            table=table_id,
            begin="_".join(filter(None, [file_name(table_id), settings.name])),
            runs=tuple(map(training, rows)),
            labels=labels,
            heading="  |  ".join(filter(None, [table.title, table.scale])),
        )
        if planned.setdefault(figure.name, figure) is not figure:
            raise ConfigError(f"{where}: it is there twice; give one of them a `name`")
    return list(planned.values())
