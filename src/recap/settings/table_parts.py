"""A printed table whose parts (fractions of the data, extractors) are tables of their own, in one file.

Part ``f001`` of ``params/mine/tables/t1.yaml`` is planned, scored and reported as the table ``mine/t1_f001``.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Self

from pydantic import Field, model_validator

from recap.core.errors import nearest
from recap.settings.model_figures import TableFigure
from recap.settings.names import Id
from recap.settings.table_rows import Doubt, PFits, Printed, PrintedP, RowSettings, TrainedRow
from recap.settings.tables import UnscaledTable

_BY_PART = ("printed", "printed_sd", "printed_p", "p_fits", "doubt")  # keys of a row that have a value for each part


class Part(RowSettings):
    """What one part has of its own: settings go before the table's `defaults`, other keys before the table's."""

    title: str | None = None
    source: str | None = Field(None, description="where the part's printed numbers are from")
    note: str | None = Field(None, description="sentences under the part at every scale")
    paper_note: str | None = Field(None, description="sentences under the part only where nothing is replaced")
    figures: list[TableFigure] | None = Field(None, description="figures of the part's trained models")


class PartsRow(TrainedRow):
    """One line of all parts, or of those that it names."""

    parts: list[Id] | None = Field(None, min_length=1, description="parts that have the row; default: all")
    printed: dict[Id, Printed] = Field(default_factory=dict, description="part -> metric -> printed value, in percent")
    printed_sd: dict[Id, Printed] = Field(
        default_factory=dict, description="part -> metric -> printed standard deviation over runs"
    )
    printed_p: dict[Id, PrintedP] = Field(
        default_factory=dict, description="part -> metric -> printed p of the row against the baseline"
    )
    p_fits: dict[Id, PFits] = Field(
        default_factory=dict, description="part -> metric -> what a t-test with the printed p may have been over"
    )
    doubt: dict[Id, Doubt] = Field(
        default_factory=dict, description="part -> metric, or `row` -> why the printed number is doubtful"
    )


class TableOfParts(UnscaledTable):
    """``params/<paper>/tables/<table>.yaml`` of a table with parts: each is ``<paper>/<table>_<part>``."""

    title: str = Field("", description="of parts without a title of their own")
    parts: dict[Id, Part] = Field(min_length=1, description="name of the part -> what it has of its own")
    rows: list[PartsRow] = Field(min_length=1)

    @model_validator(mode="after")
    def _parts_exist(self) -> Self:
        ids = [row.id for row in self.rows]
        for selection in self.selections:
            for name in selection.over:
                if name not in ids:
                    raise ValueError(f"selections: {selection.id!r}: there is no row {name!r}; {nearest(name, ids)}")
        for row in self.rows:
            own = row.parts or list(self.parts)
            for key, named, known in [
                ("parts", own, list(self.parts)),
                *((key, list(getattr(row, key)), own) for key in _BY_PART),
            ]:
                unknown = [part for part in named if part not in known]
                if unknown:
                    raise ValueError(
                        f"row {row.id!r}: {key}: there is no part {unknown[0]!r}; {nearest(unknown[0], known)}"
                    )
        return self


def part_of(values: dict[str, Any], part: str) -> dict[str, Any]:
    """Return one part of the mapping of a :class:`TableOfParts` as the mapping of a table without parts."""
    own = values["parts"][part]
    settings = {key: value for key, value in own.items() if key in RowSettings.model_fields}
    table = {key: value for key, value in {**values, **own}.items() if key not in ("parts", "selections", *settings)}
    rows = [_row_of(row, part) for row in values["rows"] if part in (row.get("parts") or values["parts"])]
    selections = selections_over(values.get("selections", []), [row["id"] for row in rows])
    return {
        **table,
        "defaults": {**values.get("defaults", {}), **settings},
        "rows": rows,
        **({"selections": selections} if selections else {}),
    }


def selections_over(selections: list[dict[str, Any]], ids: Collection[str]) -> list[dict[str, Any]]:
    """Return choices among the rows that there are; one row leaves no choice."""
    among = [{**each, "over": [name for name in each["over"] if name in ids]} for each in selections]
    return [each for each in among if len(each["over"]) > 1]


def _row_of(row: dict[str, Any], part: str) -> dict[str, Any]:
    """Return the row of one part; what the paper does not print there is left out."""
    printed = {key: row[key][part] for key in _BY_PART if part in row.get(key, {})}
    return {key: value for key, value in row.items() if key not in ("parts", *_BY_PART)} | printed
