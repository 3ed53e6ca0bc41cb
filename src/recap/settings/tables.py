"""Settings of tables (``params/<paper>/tables/``), and of claims about them
(``params/<paper>/claims.yaml``)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from recap.settings.base import (
    Id,
    Strict,
    check_distinct,
    check_known,
    exactly_one,
    omitted_at_default,
    only_with,
)
from recap.settings.figures import TableFigure
from recap.settings.kinds import OneOf, load_plugins
from recap.settings.metrics import column_names, score_info


@dataclass(frozen=True)
class RunColumn:
    """A column that is no metric: no tests, no marks, no better and worse."""

    heading: str  # name over the column
    unit: str  # of the numbers in tables, shown in the heading; empty: none
    digits: int  # decimal places of a value
    file: str  # JSON file in the folder of a training
    key: str  # of the number in that file
    scale: float = 1  # what the recorded number is multiplied by
    # the sum over the stages that a run went through, not the number of its last stage
    all_stages: bool = False
    spread: bool = False  # whether the standard deviation over seeds is shown
    higher_is_better: ClassVar[None] = None


# Name in `columns` of a table -> what it shows. A plug-in may add its own.
RUN_COLUMNS = {
    "parameters": RunColumn("Params", "M", 1, "training.json", "parameters", scale=1e-6),
    "validation CIDEr-D": RunColumn(
        "Val. CIDEr-D", "", 1, "training.json", "best_val_cider_d", scale=100, spread=True
    ),
    "steps": RunColumn("Steps", "", 0, "training.json", "steps", all_stages=True),
    "training hours": RunColumn(
        "Training", "h", 2, "training.json", "seconds", 1 / 3600, all_stages=True, spread=True
    ),
}


def table_columns() -> list[str]:
    """Return all names that a column of a table may have."""
    return [*column_names(), *RUN_COLUMNS]


def column_info(name: str) -> Any:
    """Return the metric or the run column of a name, with scale, digits and which is better.

    KeyError: none has it.
    """
    load_plugins()
    return RUN_COLUMNS[name] if name in RUN_COLUMNS else score_info(name)


def heading(name: str) -> str:
    """Return what stands over a column: the name of a score, or heading and unit."""
    column = RUN_COLUMNS.get(name)
    if column is None:
        return name
    return f"{column.heading} ({column.unit})" if column.unit else column.heading


WHOLE_ROW = "row"  # key of a doubt about all printed numbers of a row
Stages = Literal["xe", "scst"]
STAGE_NAMES = {"xe": "cross-entropy", "scst": "self-critical training"}
PUnit = Literal["runs", "images", "pairs"]
P_UNITS: dict[str, str] = {
    "runs": "runs",
    "images": "images",
    "pairs": "pairs of a run and an image",
}

Column = Annotated[str, OneOf(table_columns)]
Printed = dict[Column, float]
PrintedP = dict[Column, Annotated[float, Field(ge=0, le=1)]]
PExplanations = dict[Column, list[PUnit]]
Doubt = dict[Annotated[str, OneOf(lambda: [WHOLE_ROW, *table_columns()])], str]


class _Line(Strict):
    id: Id
    label: str


class _PrintedRow(Strict):
    """What a paper prints in a row, and what speaks against it."""

    printed: Printed = Field({}, description="column -> printed value, in percent or its unit")
    printed_p: PrintedP = Field(
        {}, description="metric -> printed p of the row against the baseline"
    )
    p_explained_by: PExplanations = omitted_at_default(
        {}, description="metric -> what the t-test of the printed p may have been over"
    )
    doubt: Doubt = Field(
        {}, description="metric, or `row` -> why the printed number is doubtful: a note"
    )

    @model_validator(mode="after")
    def _doubts_what_is_printed(self) -> Self:
        known = [*self.printed, WHOLE_ROW] if self.printed else []
        check_known("doubt about a printed number", self.doubt, known)
        check_known("p_explained_by of a printed p", self.p_explained_by, self.printed_p)
        return self


class QuotedRow(_PrintedRow, _Line):
    """One line of the paper's table that the paper quotes from others: it has no run."""

    printed: Printed = Field(description="metric -> printed value, in percent")


class NotRunRow(QuotedRow):
    """One line of the paper's own that is not run here."""

    reason: str = Field(min_length=1, description="why it is not run: a note of the table")


class OutsideRow(_PrintedRow, _Line):
    """A row not trained here: captions of any other system, or released weights."""

    captions: str | None = Field(
        None,
        min_length=1,
        description=(
            "file below the profile's inputs: COCO's results form, JSON lines or CSV, a caption "
            "for each test image of the data set"
        ),
    )
    released: str | None = omitted_at_default(
        None,
        min_length=1,
        description=(
            "folder below the profile's inputs that `recap import-checkpoint` wrote: its model "
            "captions the test images as the baseline's recipe says, from the baseline's features"
        ),
    )
    dataset: str | None = Field(
        None, description="data set of its images; default: the baseline's in this file"
    )

    _one_origin = exactly_one("captions", "released")

    @property
    def source(self) -> str:
        """The file or folder that it comes from."""
        return str(self.captions or self.released)


class RowSettings(Strict):
    """What a row trains; a table's `defaults` hold for every row that does not say otherwise."""

    dataset: str | None = None
    subset: str | None = Field(None, description="default: full")
    features: str | list[str] | None = Field(
        None, description="a name, or a list for a model with several inputs"
    )
    model: str | dict[str, Any] | None = Field(
        None, description="a name, or `base` and what differs from it"
    )
    recipe: str | dict[str, Any] | None = Field(
        None, description="a name, or `base` and what differs from it"
    )
    stage: Stages | None = Field(None, description="default: scst")


class _RunLine(_Line):
    note: str = omitted_at_default(
        "", description="what the row's settings follow: a footnote of the table"
    )
    ensemble: bool = Field(False, description="the models of all seeds decode together, as one run")


class TrainedRow(RowSettings, _RunLine):
    """One line of a table as its file has it, without what the paper prints there."""

    scales: list[str] | None = Field(
        None, description="scales at which it is run, elsewhere quoted; default: all"
    )


class RowFile(TrainedRow, _PrintedRow):
    """One line of a table as its file has it."""

    printed_sd: Printed = Field({}, description="metric -> printed standard deviation over runs")


class Row(_PrintedRow, _RunLine):
    """A row of a planned table: what is trained, as parts of paths, and the printed numbers."""

    dataset: str
    subset: str = "full"
    features: str = Field(description="names, joined by +")
    model: str
    recipe: str
    stage: Stages = "scst"
    printed_sd: Printed = Field({}, description="metric -> printed standard deviation over runs")
    as_printed: bool = omitted_at_default(
        False, description="with data and settings of the print: differences to it are shown"
    )


class Selection(_Line):
    """A line of a table that shows one of several rows: the one whose validation score is best.

    The score of a row is the mean over the seeds of the best CIDEr-D that its training's
    validations gave. Of equal ones the first is chosen. The rows are trained and scored anyway; no
    test score is read to choose.
    """

    over: list[Id] = Field(
        min_length=2, description="ids of rows of one data set, subset and stage"
    )


class Server(Strict):
    """What COCO's server is sent of a table's rows: captions of val2014 and test2014."""

    test: str = Field(
        description="data set with the test pictures; those of val2014 are in the rows' own"
    )
    features: dict[str, str] = Field(
        {}, description="features of rows -> those of test pictures, where others"
    )
    not_sent: dict[Id, str] = Field({}, description="id of a row -> why it cannot be sent: a note")


class Examples(Strict):
    """Captions that a contact sheet shows because they say something."""

    row: Id = Field(description="id of the row whose captions are searched")
    phrases: list[str] = Field(
        min_length=1, description="words or phrases; a caption with each is shown"
    )


class _Table(Strict):
    title: str
    columns: list[Column]
    baseline: str = Field(description="id of the row that the others are compared with")
    quoted: list[QuotedRow] = Field([], description="rows that the paper quotes; shown first")
    not_run: list[NotRunRow] = omitted_at_default(
        [], description="rows of the paper that are not run; shown after the quoted"
    )
    selections: list[Selection] = omitted_at_default(
        [], description="rows that show the best of some by validation; shown last"
    )
    outside: list[OutsideRow] = omitted_at_default(
        [], description="rows of captions from a file; quoted with other data"
    )
    pairs: list[Annotated[str, OneOf(column_names)]] = omitted_at_default(
        [], description="metrics on which all pairs of trained rows are compared as well"
    )
    server: Server | None = omitted_at_default(
        None, description="the rows' captions go to COCO's server, which scores them"
    )
    examples: Examples | None = omitted_at_default(
        None, description="captions that are shown beside those drawn at random"
    )
    doubts: list[str] = omitted_at_default(
        [], description="what is doubtful about the printed table as a whole: notes below it"
    )
    image_ids: list[int] = omitted_at_default(
        [], description="test images that the contact sheet shows first"
    )
    image_captions: list[str] = omitted_at_default(
        [], description="references of such images without known ids, in any capitals"
    )
    printed_on: str | None = omitted_at_default(
        None,
        description=(
            "data set on whose test split the printed numbers were measured, with the settings of "
            "the rows; without it no difference to them is shown"
        ),
    )


def check_ids(table: Any) -> Any:
    """Refuse ids of a table's rows that are duplicated, or named and not there."""
    ids = [row.id for row in table.rows]
    single_models = [row.id for row in table.rows if not row.ensemble]
    lines = (*table.rows, *table.quoted, *table.not_run, *table.outside, *table.selections)
    check_distinct("rows", [line.id for line in lines])
    check_known("baseline", [table.baseline], ids)
    for selection in table.selections:
        check_known(
            f"selections: {selection.id!r}: rows of single models", selection.over, single_models
        )
    check_known("server.not_sent", table.server.not_sent if table.server else (), ids)
    check_known("examples.row", [table.examples.row] if table.examples else (), ids)
    for figure in getattr(table, "figures", ()):
        check_known(f"figures: {figure.kind}: rows of single models", figure.rows, single_models)
    return table


class UnscaledTable(_Table):
    """What table files with and without parts share."""

    source: str = Field(
        "", description="where the printed numbers are from, with the data they were measured on"
    )
    note: str = Field("", description="sentences under the table at every scale")
    paper_note: str = Field(
        "", description="sentences under the table only where nothing is replaced"
    )
    seeds: PositiveInt = Field(1, description="runs of each row in the paper")
    defaults: RowSettings = RowSettings()
    figures: list[TableFigure] = Field([], description="figures of the rows' trained models")


class TableFile(UnscaledTable):
    """``params/<paper>/tables/<table>.yaml``: a table with the paper's own settings."""

    rows: list[RowFile] = Field(min_length=1)

    _ids_fit = model_validator(mode="after")(check_ids)


class Table(_Table):
    """A planned table: rows, columns, and the row that the others are tested against."""

    scale: str = Field(
        description="sentences under the table: what was scaled down, and the table's own notes"
    )
    short_scale: str = omitted_at_default(
        "", description="the scale and its data in one sentence; none: nothing was scaled"
    )
    rows: list[Row] = Field(min_length=1)

    _ids_fit = model_validator(mode="after")(check_ids)


# keys of a row that have a value for each part
_BY_PART = ("printed", "printed_sd", "printed_p", "p_explained_by", "doubt")


class Part(RowSettings):
    """What one part has of its own; it goes before the table's keys and `defaults`."""

    title: str | None = None
    source: str | None = Field(None, description="where the part's printed numbers are from")
    note: str | None = Field(None, description="sentences under the part at every scale")
    paper_note: str | None = Field(
        None, description="sentences under the part only where nothing is replaced"
    )
    figures: list[TableFigure] | None = Field(
        None, description="figures of the part's trained models"
    )


class PartsRow(TrainedRow):
    """One line of all parts, or of those that it names."""

    parts: list[Id] | None = Field(
        None, min_length=1, description="parts that have the row; default: all"
    )
    printed: dict[Id, Printed] = Field(
        {}, description="part -> metric -> printed value, in percent"
    )
    printed_sd: dict[Id, Printed] = Field(
        {}, description="part -> metric -> printed deviation over runs"
    )
    printed_p: dict[Id, PrintedP] = Field(
        {}, description="part -> metric -> printed p against the baseline"
    )
    p_explained_by: dict[Id, PExplanations] = Field(
        {}, description="part -> metric -> what its t-test may have been over"
    )
    doubt: dict[Id, Doubt] = Field({}, description="part -> metric, or `row` -> why it is doubtful")


class TableOfParts(UnscaledTable):
    """A printed table whose parts (fractions of the data,
    extractors) are tables of their own, in one file.

    Part ``f001`` of ``params/mine/tables/t1.yaml`` is planned, scored and reported as the table
    ``mine/t1_f001``.
    """

    title: str = Field("", description="of parts without a title of their own")
    parts: dict[Id, Part] = Field(
        min_length=1, description="name of the part -> what it has of its own"
    )
    rows: list[PartsRow] = Field(min_length=1)

    @model_validator(mode="after")
    def _parts_exist(self) -> Self:
        ids = [row.id for row in self.rows]
        for selection in self.selections:
            check_known(f"selections: {selection.id!r}: rows", selection.over, ids)
        for row in self.rows:
            own = row.parts or list(self.parts)
            check_known(f"row {row.id!r}: parts", own, self.parts)
            for key in _BY_PART:
                check_known(f"row {row.id!r}: {key}: parts", getattr(row, key), own)
        return self


def part_of(values: dict[str, Any], part: str) -> dict[str, Any]:
    """Return one part of a :class:`TableOfParts`' mapping as that of a plain table."""
    own = values["parts"][part]
    table: dict[str, Any] = {}
    defaults = dict(values.get("defaults", {}))
    for key, value in {**values, **own}.items():
        if key in own and key in RowSettings.model_fields:
            defaults[key] = value
        elif key not in ("parts", "selections"):
            table[key] = value
    rows = [row for row in values["rows"] if part in (row.get("parts") or values["parts"])]
    table |= {"defaults": defaults, "rows": [_row_of(row, part) for row in rows]}
    selections = selections_over(values.get("selections", []), [row["id"] for row in rows])
    if selections:
        table["selections"] = selections
    return table


def _row_of(row: dict[str, Any], part: str) -> dict[str, Any]:
    line = {key: value for key, value in row.items() if key not in ("parts", *_BY_PART)}
    for key in _BY_PART:
        if part in row.get(key, {}):
            line[key] = row[key][part]
    return line


def selections_over(selections: list[dict[str, Any]], ids: Collection[str]) -> list[dict[str, Any]]:
    """Return choices among the rows that there are; one row leaves no choice."""
    choices = []
    for selection in selections:
        over = [name for name in selection["over"] if name in ids]
        if len(over) > 1:
            choices.append({**selection, "over": over})
    return choices


class Check(Strict):
    """A claim's comparison: a row against other rows, a quoted row, or a printed number."""

    table: str = Field(description="name of the table, with its part: mine/t1_f001")
    fallback_table: str | None = Field(
        None, description="table of the same rows, read where `table` has one seed or none"
    )
    metrics: list[Column] = Field(default=["CIDEr"], min_length=1)
    row: Id
    against: Id | list[Id] | None = Field(
        None, description="id of a row, or of several, of which the best counts"
    )
    quoted: Id | None = Field(None, description="id of a row that the paper quotes")
    printed: float | None = Field(None, description="a printed number in percent")
    sign: Literal["higher", "lower", "equal"] = "higher"
    size: PositiveFloat | None = Field(
        None, description="printed size of the difference in percent points"
    )
    within: PositiveFloat | None = Field(
        None, description="points that count as equal, for `sign: equal`"
    )

    _one_opponent = exactly_one("against", "quoted", "printed")
    _equal_within = only_with("within", when=("sign", "equal"))

    @property
    def tables(self) -> list[str]:
        """Its table, and the one that may be read in its place."""
        return [self.table, self.fallback_table] if self.fallback_table else [self.table]

    @property
    def rows(self) -> list[str]:
        """The rows that the row is compared with, of which the best counts."""
        return [self.against] if isinstance(self.against, str) else self.against or []


class FixedVerdict(Strict):
    """A verdict that no training can change, such as a sum or a count."""

    holds: bool
    why: str = Field(min_length=1, description="the sum, or where the count is checked")


class Claim(Strict):
    """One sentence of a paper."""

    id: Annotated[str, Field(pattern=r"^[a-z0-9_]+\.c[0-9]+$")]
    sentence: str
    where: str = Field(description="section of the paper, or `abstract`")
    printed: list[float] = Field([], description="numbers of the sentence, as printed")
    doubt: str = Field("", description="what speaks against the sentence in the paper itself")
    checks: list[Check] = Field([], description="comparisons that all must hold")
    fixed_verdict: FixedVerdict | None = None
    reason_unjudged: str | None = Field(
        None, min_length=1, description="why no program can judge it"
    )

    _decided_once = exactly_one("checks", "fixed_verdict", "reason_unjudged")


class ClaimsFile(Strict):
    """``params/<paper>/claims.yaml``."""

    claims: list[Claim] = Field(min_length=1)

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        check_distinct("claims", [claim.id for claim in self.claims])
        return self
