"""Settings of figures that draw the scores of tables over a setting: folders ``figures/``."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from recap.settings.base import Strict
from recap.settings.metrics import column_names
from recap.settings.names import OneOf

Column = Annotated[str, OneOf(column_names)]


class Axis(Strict):
    """The horizontal axis: a setting in which the drawn rows differ."""

    setting: str = Field(
        pattern=r"^(subset|model|recipe)\.[a-z_.]+$", description="as subset.fraction or model.tau, at the run's scale"
    )
    label: str = Field(description="what stands under the axis")
    factor: float = Field(1.0, description="numbers on the axis are the setting times this; 100: percent")
    logarithmic: bool = False


class FigureFile(Strict):
    """``params/<paper>/figures/<figure>.yaml``: metrics of several tables' rows over one setting, as lines."""

    title: str
    source: str = Field("", description="the paper's figure")
    x: Axis
    metrics: list[Column] = Field(min_length=1, description="one panel each")
    tables: list[str] = Field(min_length=1, description="names of tables: mine/t3")
    line_of: Literal["row", "table"] = Field(
        description="row: a line joins the rows of one id in all tables; table: it joins the rows of one table"
    )
    labels: dict[str, str] = Field(
        min_length=1, description="row id or table -> name in the legend, of all that is drawn"
    )
    rows: list[str] = Field(default_factory=list, description="line_of table: ids of the rows on each line")

    @model_validator(mode="after")
    def _rows_fit(self) -> Self:
        if (self.line_of == "table") != bool(self.rows):
            raise ValueError("`rows` goes with line_of: table, and with no other")
        return self


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
    """A planned figure (``recap report sweep``)."""

    title: str
    scale: str = Field(description="what was scaled down")
    x_label: str = Field(description="what stands under the axis")
    logarithmic: bool = False
    metrics: list[Column] = Field(min_length=1, description="one panel each")
    lines: list[Line] = Field(min_length=1)
