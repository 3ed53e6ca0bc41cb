"""What ``--spec`` of commands takes: all settings of one job, as the workflow passes them."""

from __future__ import annotations

import json
from textwrap import indent
from typing import Any

from pydantic import Field, TypeAdapter

from recap.settings.base import Strict, omitted_at_default
from recap.settings.studies import Study
from recap.settings.tables import Claim, Selection, Stages, Table


class ComparedTable(Strict):
    """Steps `statistics` and `samples`."""

    table: Table = Field(description="keys of the table's file")
    seeds: list[int] = Field(min_length=1, description="seeds of its runs")
    trainings: dict[str, list[str]] = omitted_at_default(
        {}, description="scored run -> its trainings, in their order"
    )
    server: dict[str, str] = omitted_at_default(
        {}, description="scored run -> folder of captions for COCO's server, and its answer"
    )


class SelectedRows(Strict):
    """Step `select`: the choices of a table, and the trainings among which it chooses."""

    selections: list[Selection] = Field(description="keys of the table's `selections`")
    labels: dict[str, str] = Field(description="id of a row -> its label")
    trainings: dict[str, dict[int, str]] = Field(
        description="id of a row -> seed -> training whose validations count"
    )


class Curve(Strict):
    """A training whose learning curve is drawn."""

    label: str = Field(description="what a reader calls its series")
    seed: int
    stage: Stages
    path: str = Field(description="its folder, below that of all runs")
    after: str | None = Field(description="the same of the training of the first stage")


class CurvesSpec(Strict):
    """Step `curves`."""

    runs: list[Curve] = Field(description="labels get their colors in this order")


class PrintedTable(Strict):
    """What a paper prints in a table in whose place another is read."""

    stage: Stages
    rows: dict[str, dict[str, float]] = Field(description="id of a row -> column -> printed number")


class ClaimsSpec(Strict):
    """Step `claims`: the claims of one profile."""

    scale: str = Field(description="name of the scale at which its tables are made")
    claims: list[Claim] = Field(description="keys of the papers' claims")
    tables: dict[str, ComparedTable] = Field(description="name -> table with the seeds of its runs")
    printed: dict[str, PrintedTable] = Field(
        {}, description="name of a table that another stands in for -> its print"
    )


class StudySpec(Strict):
    """``recap study sheets``."""

    name: str = Field(min_length=1, description="of the study")
    study: Study = Field(description="keys of the study's file")
    scale: str = Field(
        "Captions given by hand.",
        description="sentence below the table: how the models were trained",
    )


def described(spec: Any) -> str:
    """Return a line for each key of a spec; of several kinds, the keys of each."""
    schema = TypeAdapter(spec).json_schema()
    kinds = [
        schema["$defs"][option["$ref"].rsplit("/", 1)[-1]] for option in schema.get("oneOf", [])
    ]
    return "\n".join(f"{kind['title']}:\n{indent(_lines(kind), '  ')}" for kind in kinds) or _lines(
        schema
    )


def _lines(schema: dict[str, Any]) -> str:
    """Return the keys of one kind of object, those first
    that must be given, each with what it is and its default."""
    required = schema.get("required", [])
    width = max(map(len, schema["properties"]))
    lines = []
    for name, key in sorted(schema["properties"].items(), key=lambda item: item[0] not in required):
        values = key.get("enum", [key.get("const", "an object: `make schema` lists its keys")])
        text = key.get("description") or ", ".join(map(str, values))
        default = key.get("default")
        shown = "" if name in required or isinstance(default, dict) else f"({json.dumps(default)})"
        lines.append(f"{name:{width}}  {' '.join(filter(None, [text, shown]))}")
    return "\n".join(lines)
