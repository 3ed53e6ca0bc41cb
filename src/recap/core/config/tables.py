"""Settings of tables and profiles: ``params/tables/`` and ``params/<profile>.yaml``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, PositiveInt, field_validator, model_validator

from recap.core.config.base import Strict
from recap.core.config.names import OneOf
from recap.core.errors import nearest
from recap.core.metrics import column_names


def _known_metrics(printed: dict[str, float]) -> dict[str, float]:
    known = column_names()
    unknown = sorted(set(printed) - set(known))
    if unknown:
        raise ValueError(f"unknown metric {unknown[0]!r}; {nearest(unknown[0], known)}")
    return printed


Printed = Annotated[dict[str, float], AfterValidator(_known_metrics)]


class Row(Strict):
    """One line of a table: what is trained, and what the paper printed."""

    id: str = Field(pattern=r"^[a-z0-9_.]+$")
    label: str
    dataset: str
    subset: str = "full"
    features: str
    model: str
    recipe: str
    stage: Literal["xe", "scst"] = "scst"
    ensemble: bool = Field(False, description="the models of all seeds speak together, as one run")
    printed: Printed = Field(default_factory=dict, description="metric -> printed value, in percent")


class QuotedRow(Strict):
    """One line of the paper's table that the paper quotes from others: no run stands behind it."""

    id: str = Field(pattern=r"^[a-z0-9_.]+$")
    label: str
    printed: Printed = Field(description="metric -> printed value, in percent")


class Table(Strict):
    """One result table: rows, columns, and the row that the others are tested against."""

    title: str
    scale: str = Field(description="what was scaled down, in words; stands under the table")
    paper_scale: bool = Field(
        False, description="data, features and training are the paper's: differences to it are shown"
    )
    columns: list[Annotated[str, OneOf(column_names)]]
    baseline: str = Field(description="id of the row that the others are compared with")
    quoted: list[QuotedRow] = Field(default_factory=list, description="rows that the paper quotes; shown first")
    rows: list[Row] = Field(min_length=1)
    attention: list[str] = Field(
        default_factory=list, description="ids of rows (first seed) whose attention is drawn along the words"
    )

    @model_validator(mode="after")
    def _consistent(self) -> Table:
        ids = [row.id for row in self.rows]
        every = ids + [row.id for row in self.quoted]
        if len(set(every)) != len(every):
            twice = next(name for name in every if every.count(name) > 1)
            raise ValueError(f"two rows have the id {twice!r}; give each an id of its own")
        if self.baseline not in ids:
            raise ValueError(f"baseline {self.baseline!r} is no row id; {nearest(self.baseline, ids)}")
        alone = [row.id for row in self.rows if not row.ensemble]
        for name in self.attention:
            if name not in alone:
                raise ValueError(f"attention {name!r} is no row of single models; those are {', '.join(alone)}")
        return self


class Profile(Strict):
    """What one run of the workflow makes."""

    name: str = Field(pattern=r"^[a-z0-9_]+$")
    tables: list[str] = Field(min_length=1)
    seeds: list[int] = Field(min_length=1, description="one training a seed and row")
    inputs: str = Field("resources", description="folder with the outside files that datasets and features name")
    fetch: bool = Field(False, description="fetch outside files that are not there and stand in data_versions.csv")
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="auto: a GPU if there is one")
    threads: PositiveInt = Field(1, description="CPU threads of one training or evaluation job")
    sample_captions: PositiveInt = Field(10, description="pictures on the contact sheet")

    @field_validator("seeds")
    @classmethod
    def _distinct(cls, seeds: list[int]) -> list[int]:
        if len(set(seeds)) != len(seeds):
            raise ValueError("a seed stands twice")
        return seeds
