"""Settings of tables (``params/<paper>/tables/``)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, PositiveInt, model_validator

from recap.core.errors import nearest
from recap.settings.base import Strict, neutral
from recap.settings.columns import table_columns
from recap.settings.model_figures import TableFigure
from recap.settings.names import Id, OneOf
from recap.settings.selections import Selection
from recap.settings.table_rows import NotRunRow, OutsideRow, QuotedRow, Row, RowFile, RowSettings


class Server(Strict):
    """What COCO's caption server is sent of a table's rows: captions of val2014 and of pictures without references."""

    test: str = Field(description="data set with the test pictures; those of val2014 are in the rows' own")
    features: dict[str, str] = Field(
        default_factory=dict,
        description="features of rows -> those of the test pictures, where other files have them",
    )
    not_sent: dict[Id, str] = Field(
        default_factory=dict, description="id of a row -> why it cannot be sent: a note of the table"
    )


class Examples(Strict):
    """Captions that a contact sheet shows because they say something."""

    row: Id = Field(description="id of the row whose captions are searched")
    phrases: list[str] = Field(min_length=1, description="words or phrases; a caption with each is shown")


class _Table(Strict):
    """What a table file and a planned table share."""

    title: str
    columns: list[Annotated[str, OneOf(table_columns)]]
    baseline: str = Field(description="id of the row that the others are compared with")
    quoted: list[QuotedRow] = Field(default_factory=list, description="rows that the paper quotes; shown first")
    not_run: list[NotRunRow] = neutral(
        [], description="rows of the paper's own that are not run, each with the reason; shown after the quoted ones"
    )
    selections: list[Selection] = neutral(
        [], description="rows that show whichever of some rows is best on the validation split; shown last"
    )
    outside: list[OutsideRow] = neutral(
        [],
        description="rows whose captions are from a file; at a scale with other data they are only quoted",
    )
    server: Server | None = neutral(None, description="the rows' captions go to COCO's server, which scores them")
    examples: Examples | None = neutral(None, description="captions that are shown beside those drawn at random")
    doubts: list[str] = neutral([], description="what is doubtful about the printed table as a whole: notes below it")
    image_ids: list[int] = neutral(
        [], description="images of the test split that the contact sheet shows first; at a scale with other data none"
    )
    image_captions: list[str] = neutral(
        [],
        description="references of such images whose ids are not known; capitals and punctuation do not count",
    )
    printed_on: str | None = neutral(
        None,
        description="data set on whose test split the printed numbers were measured, with the settings of the rows; "
        "without it no difference to them is shown",
    )


class UnscaledTable(_Table):
    """What table files with and without parts share."""

    source: str = Field("", description="where the printed numbers are from, with the data they were measured on")
    note: str = Field("", description="sentences under the table at every scale")
    paper_note: str = Field("", description="sentences under the table only where nothing is replaced")
    seeds: PositiveInt = Field(1, description="runs of each row in the paper")
    defaults: RowSettings = RowSettings()
    figures: list[TableFigure] = Field(default_factory=list, description="figures of the rows' trained models")


class TableFile(UnscaledTable):
    """``params/<paper>/tables/<table>.yaml``: a table with the paper's own settings, which a scale may replace."""

    rows: list[RowFile] = Field(min_length=1)

    @model_validator(mode="after")
    def _consistent(self) -> TableFile:
        _check_ids(self)
        alone = [row.id for row in self.rows if not row.ensemble]
        for figure in self.figures:
            for name in figure.rows:
                if name not in alone:
                    raise ValueError(
                        f"figures: {figure.kind}: {name!r} is no row of single models; those are {', '.join(alone)}"
                    )
        return self


class Table(_Table):
    """A planned table: rows, columns, and the row that the others are tested against."""

    scale: str = Field(description="sentences under the table: what was scaled down, and the table's own notes")
    short_scale: str = neutral("", description="the scale and its data in one sentence; none: nothing was scaled")
    rows: list[Row] = Field(min_length=1)

    @model_validator(mode="after")
    def _consistent(self) -> Table:
        _check_ids(self)
        return self


def _check_ids(table: TableFile | Table) -> None:
    """Refuse ids that are duplicated, or named and not there."""
    ids = [row.id for row in table.rows]
    every = ids + [row.id for row in (*table.quoted, *table.not_run)]
    every += [row.id for row in table.outside] + [selection.id for selection in table.selections]
    if len(set(every)) != len(every):
        duplicate = next(name for name in every if every.count(name) > 1)
        raise ValueError(f"two rows have the id {duplicate!r}; give each a different id")
    if table.baseline not in ids:
        raise ValueError(f"baseline {table.baseline!r} is no row id; {nearest(table.baseline, ids)}")
    single = [row.id for row in table.rows if not row.ensemble]
    for selection in table.selections:
        for name in selection.over:
            if name not in single:
                raise ValueError(
                    f"selections: {selection.id!r}: {name!r} is no row of single models; {nearest(name, single)}"
                )
    for name in table.server.not_sent if table.server else ():
        if name not in ids:
            raise ValueError(f"server.not_sent: {name!r} is no row id; {nearest(name, ids)}")
    if table.examples and table.examples.row not in ids:
        raise ValueError(f"examples.row {table.examples.row!r} is no row id; {nearest(table.examples.row, ids)}")
