"""Settings of the rows of tables: what a paper prints in a row, and what is trained for it."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from recap.core.errors import nearest
from recap.settings.base import Strict, neutral
from recap.settings.columns import table_columns
from recap.settings.names import Id

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
