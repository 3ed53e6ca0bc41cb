"""Texts that must be one of the names of a registry, which plug-ins may extend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticKnownError, core_schema

from recap.settings.outside import NoFile

Id = Annotated[str, Field(pattern=r"^[a-z0-9_.]+$")]  # of a row, or of a part of a table


@dataclass(frozen=True)
class OneOf(NoFile):
    """As ``Literal``, of names that are looked up when a value is checked."""

    names: Callable[[], Sequence[str]]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"type": "string", "enum": list(self.names())}

    def _check(self, value: str) -> str:
        known = self.names()
        if value not in known:
            raise PydanticKnownError("literal_error", {"expected": ", ".join(map(repr, known))})
        return value
