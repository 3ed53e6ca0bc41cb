"""Settings of figures: of trained models, which a table lists,
and of scores over a setting (folders ``figures/``).

A kind of the first is a `ModelFigure`, registered with `FIGURES`. Here are those that any model may
be drawn by; those of a paper are in its folder. A module named in RECAP_PLUGINS
(`recap.settings.kinds`) adds kinds in the same way.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field, PositiveInt

from recap.settings.base import Strict, omitted_at_default, only_with
from recap.settings.kinds import OneOf, Registry
from recap.settings.metrics import column_names

FIGURES = Registry("kind of figure", package="recap.papers")
Split = Literal["val", "test"]
Column = Annotated[str, OneOf(column_names)]


class ModelFigure(Strict, ABC):
    """Settings of a kind of figure; `FIGURES.register` makes a subclass
    with `kind: Literal[NAME]` known as NAME."""

    #: the function that makes it, "package.module:function", imported when it is
    #: drawn. It is called with these settings, a
    #: `recap.evaluation.figures.DrawnModels` and the path of each file in `files`.
    implementation: ClassVar[str]
    #: how the names of its files end -> title in the report
    #: of the profile; "": the file is not in it
    files: ClassVar[Mapping[str, str]]
    caption: ClassVar[str]  #: text below its files there
    needs_images: ClassVar[bool] = True  #: whether photos are drawn
    #: whether trained models are drawn; without them the captions of the rows' data set are
    needs_models: ClassVar[bool] = True
    most_rows: ClassVar[int | None] = None  #: how many models it shows at most; None: any number

    kind: str
    rows: list[str] = Field(
        [], description="ids of the table's rows (first seed) that it shows; none: all"
    )
    name: str = Field(
        "", pattern=r"^[a-z0-9_]*$", description="in the names of its files, if a table has two"
    )
    scales: list[str] | None = omitted_at_default(
        None, description="scales at which it is drawn; default: everywhere"
    )

    def texts(self) -> list[str]:
        """Return the texts that it is drawn from, by names below the profile's `inputs`."""
        return []


TableFigure = Annotated[ModelFigure, FIGURES]


class ShownImages(ModelFigure):
    """A figure of some images and their captions."""

    image_ids: list[int] | None = Field(
        None, description="images (default: some of the test split, always the same)"
    )
    count: PositiveInt = Field(3, description="number of test images where none are named")
    beam: PositiveInt = Field(3, description="beam size of the search")


@FIGURES.register
class AttentionFigure(ShownImages):
    """The attention over the image behind each token of a caption."""

    implementation: ClassVar[str] = "recap.evaluation.figures:draw_attention"
    files: ClassVar[Mapping[str, str]] = {"attention.png": "attention"}
    caption: ClassVar[str] = (
        "Where the models look while they say each word: bright where the attention is high, the "
        "strongest cell outlined in red."
    )

    kind: Literal["attention"]


@FIGURES.register
class OtherImagesFigure(ModelFigure):
    """Whether models look: the loss of references with their own images and with others."""

    implementation: ClassVar[str] = "recap.evaluation.figures:compare_images"
    files: ClassVar[Mapping[str, str]] = {"other_images.json": "loss with exchanged images"}
    caption: ClassVar[str] = (
        "The loss of reference captions with their own images and with those of others, and the "
        "paired test of the difference over images. A model that ignores the image loses nothing."
    )
    needs_images: ClassVar[bool] = False

    kind: Literal["other_images"]
    split: Split = Field("test", description="images")


class Axis(Strict):
    """The horizontal axis: a setting in which the drawn rows differ."""

    setting: str = Field(
        pattern=r"^(subset|model|recipe)\.[a-z_.]+$", description="as model.tau, at the run's scale"
    )
    label: str = Field(description="what stands under the axis")
    factor: float = Field(
        1.0, description="numbers on the axis are the setting times this; 100: percent"
    )
    logarithmic: bool = False


class FigureFile(Strict):
    """``params/<paper>/figures/<figure>.yaml``: metrics of rows over one setting."""

    title: str
    source: str = Field("", description="the paper's figure")
    x: Axis
    metrics: list[Column] = Field(min_length=1, description="one panel each")
    tables: list[str] = Field(min_length=1, description="names of tables: mine/t3")
    line_of: Literal["row", "table"] = Field(
        description=(
            "row: a line joins the rows of one id in all tables; table: it joins the rows of one "
            "table"
        )
    )
    labels: dict[str, str] = Field(
        min_length=1, description="row id or table -> name in the legend, of all drawn"
    )
    rows: list[str] = Field([], description="line_of table: ids of the rows on each line")

    _rows_of_tables = only_with("rows", when=("line_of", "table"))


class Point(Strict):
    """A row on a line."""

    x: float = Field(description="number on the axis")
    table: str = Field(description="name of the table's statistics, without .json")
    row: str = Field(description="id of the row")


class Line(Strict):
    """One line of a figure."""

    label: str = Field(description="name in the legend")
    points: list[Point] = Field(min_length=1)


class Figure(Strict):
    """A planned figure (step `sweep`)."""

    title: str
    scale: str = Field(description="what was scaled down")
    x_label: str = Field(description="what stands under the axis")
    logarithmic: bool = False
    metrics: list[Column] = Field(min_length=1, description="one panel each")
    lines: list[Line] = Field(min_length=1)
