"""Settings of profiles (``profile.yaml`` of a paper, ``params/demo.yaml``)."""

from __future__ import annotations

from typing import Any

from pydantic import Field, PositiveInt, StrictInt, field_validator, model_validator

from recap.settings.base import Strict, neutral
from recap.settings.execution import Execution, refuse_moved


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
    seeds: list[StrictInt] | None = Field(
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
