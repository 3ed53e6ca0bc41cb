"""Settings of tables (``params/<paper>/tables/``) and profiles (``profile.yaml`` of a paper, ``params/demo.yaml``)."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, PositiveInt, field_validator, model_validator

from recap.core.errors import nearest
from recap.settings.base import Strict, neutral
from recap.settings.columns import table_columns
from recap.settings.execution import Execution, refuse_moved
from recap.settings.model_figures import TableFigure
from recap.settings.names import Id, OneOf
from recap.settings.selections import Selection

WHOLE_ROW = "row"  # key of a doubt about all printed numbers of a row


def _known_columns(printed: dict[str, Any]) -> dict[str, Any]:
    known = table_columns()
    unknown = sorted(set(printed) - set(known))
    if unknown:
        raise ValueError(f"unknown column {unknown[0]!r}; {nearest(unknown[0], known)}")
    return printed


def _known_columns_or_row(doubt: dict[str, str]) -> dict[str, str]:
    _known_columns({key: text for key, text in doubt.items() if key != WHOLE_ROW})
    return doubt


Printed = Annotated[dict[str, float], AfterValidator(_known_columns)]
PrintedP = Annotated[dict[str, Annotated[float, Field(ge=0, le=1)]], AfterValidator(_known_columns)]
PUnit = Literal["runs", "images", "pairs"]
P_UNITS: dict[str, str] = {"runs": "runs", "images": "images", "pairs": "pairs of a run and an image"}
PFits = Annotated[dict[str, list[PUnit]], AfterValidator(_known_columns)]
Doubt = Annotated[dict[str, str], AfterValidator(_known_columns_or_row)]


Stages = Literal["xe", "scst"]
STAGE_NAMES = {"xe": "cross-entropy", "scst": "self-critical training"}


class _PrintedRow(Strict):
    """What a paper prints in a row, and what speaks against it."""

    printed: Printed = Field(
        default_factory=dict, description="column -> printed value, in percent or the column's unit"
    )
    printed_p: PrintedP = Field(default_factory=dict, description="metric -> printed p of the row against the baseline")
    p_fits: PFits = neutral({}, description="metric -> what the t-test of the printed p may have been over")
    doubt: Doubt = Field(
        default_factory=dict, description="metric, or `row` -> why the printed number is doubtful: a note of the table"
    )

    @model_validator(mode="after")
    def _doubts_what_is_printed(self) -> Self:
        unprinted = [key for key in self.doubt if key not in self.printed and not (key == WHOLE_ROW and self.printed)]
        if unprinted:
            raise ValueError(f"doubt: {unprinted[0]!r} has no printed number in this row; leave it out")
        unprinted = [key for key in self.p_fits if key not in self.printed_p]
        if unprinted:
            raise ValueError(f"p_fits: {unprinted[0]!r} has no printed p in this row; leave it out")
        return self


class QuotedRow(_PrintedRow):
    """One line of the paper's table that the paper quotes from others: it has no run."""

    id: Id
    label: str
    printed: Printed = Field(description="metric -> printed value, in percent")


class NotRunRow(QuotedRow):
    """One line of the paper's own that is not run here."""

    reason: str = Field(min_length=1, description="why it is not run: a note of the table")


class OutsideRow(_PrintedRow):
    """One line that is not trained here: captions that any other system made, or weights that others released."""

    id: Id
    label: str
    captions: str | None = Field(
        None,
        min_length=1,
        description="file below the profile's inputs: COCO's results form, JSON lines or CSV, a caption for each test "
        "image of the data set",
    )
    released: str | None = neutral(
        None,
        min_length=1,
        description="folder below the profile's inputs that `recap import-checkpoint` wrote: its model captions the "
        "test images as the baseline's recipe says, from the baseline's features",
    )
    dataset: str | None = Field(None, description="data set of its images; default: the baseline's in this file")

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        if (self.captions is None) == (self.released is None):
            raise ValueError("give either `captions`, a file, or `released`, the folder of an imported checkpoint")
        return self

    @property
    def source(self) -> str:
        """The file or folder that it comes from."""
        return str(self.captions or self.released)


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


class RowSettings(Strict):
    """What a row trains; a table's `defaults` hold for every row that does not say otherwise."""

    dataset: str | None = None
    subset: str | None = Field(None, description="default: full")
    features: str | list[str] | None = Field(None, description="a name, or a list for a model with several inputs")
    model: str | dict[str, Any] | None = Field(None, description="a name, or `base` and what differs from it")
    recipe: str | dict[str, Any] | None = Field(None, description="a name, or `base` and what differs from it")
    stage: Stages | None = Field(None, description="default: scst")


class TrainedRow(RowSettings):
    """One line of a table as its file has it, without what the paper prints there."""

    id: Id
    label: str
    note: str = neutral("", description="what the row's settings follow: a footnote of the table")
    ensemble: bool = Field(False, description="the models of all seeds decode together, as one run")
    scales: list[str] | None = Field(
        None, description="scales at which the row is run, elsewhere it is quoted; default: everywhere"
    )


class RowFile(TrainedRow, _PrintedRow):
    """One line of a table as its file has it."""

    printed_sd: Printed = Field(default_factory=dict, description="metric -> printed standard deviation over runs")


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


class Row(_PrintedRow):
    """One line of a planned table: what is trained, as parts of paths, and what the paper printed."""

    id: Id
    label: str
    dataset: str
    subset: str = "full"
    features: str = Field(description="names, joined by +")
    model: str
    recipe: str
    stage: Stages = "scst"
    note: str = neutral("", description="what the row's settings follow: a footnote of the table")
    ensemble: bool = Field(False, description="the models of all seeds decode together, as one run")
    printed_sd: Printed = Field(default_factory=dict, description="metric -> printed standard deviation over runs")
    as_printed: bool = neutral(
        False, description="data set and settings are those of the printed numbers: differences to them are shown"
    )


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


class Profile(Strict):
    """What one run of the workflow makes."""

    name: str = Field(pattern=r"^[a-z0-9_]+$")
    tables: list[str] = Field(min_length=1, description="names of tables: mine/t3 is params/mine/tables/t3.yaml")
    figures: list[str] = Field(
        default_factory=list, description="names of figures (mine/f7); their tables are made, too"
    )
    scale: str | None = Field(
        None,
        description="name of a scale; none: the tables as they are",
    )
    seeds: list[int] | None = Field(
        None, min_length=1, description="one training per seed and row; default: the scale's, then the table's number"
    )
    inputs: str = Field("resources", description="folder with the outside files that datasets and features name")
    fetch: bool = Field(
        False, description="fetch and unpack outside files that are missing and listed in data_versions.csv"
    )
    keep_archives: bool = Field(
        True, description="false: a fetched archive that is only unpacked is removed when that is done"
    )
    execution: Execution = Field(Execution(), description="how jobs are computed; counts before a recipe's own")
    studies: list[str] = neutral([], description="names of human studies: mine/t6")
    sample_captions: PositiveInt = Field(10, description="pictures on the contact sheet")

    @model_validator(mode="before")
    @classmethod
    def _nothing_moved(cls, values: Any) -> Any:
        return refuse_moved(values)

    @field_validator("seeds")
    @classmethod
    def _distinct(cls, seeds: list[int] | None) -> list[int] | None:
        if seeds is not None and len(set(seeds)) != len(seeds):
            raise ValueError("a seed is duplicated")
        return seeds


class PaperProfile(Profile):
    """``params/<paper>/profile.yaml``: what is made of a paper at each scale; results are in folders NAME_SCALE."""

    tables: list[str] = Field(default_factory=list, description="names of tables that are made at every scale")
    scales: dict[str, dict[str, Any]] = Field(
        min_length=1,
        description="scale -> keys of a profile that hold there, unless they are given for all scales; an entry with "
        "the key `scale` is another set of tables at that scale",
    )
