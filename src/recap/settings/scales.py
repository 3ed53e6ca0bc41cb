"""Settings of scales (folders ``scales/``), and what their sentences call data sets (``params/titles.yaml``)."""

from __future__ import annotations

from typing import Any

from pydantic import Field, StrictInt, model_validator

from recap.settings.base import Strict

ALL = "*"  # key of the replacement for all names without a key


class Replacements(Strict):
    """Replacements for what a table's rows name; `*` is the key for all other names."""

    datasets: dict[str, str] = Field(default_factory=dict, description="data set -> the one in its place")
    subsets: dict[str, str] = Field(default_factory=dict, description="subset -> the one in its place")
    features: dict[str, str] = Field(default_factory=dict, description="features -> those in their place")
    models: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="kind of model -> the sizes that override those of its file"
    )
    recipes: dict[str, str | dict[str, Any]] = Field(
        default_factory=dict, description="recipe -> the one in its place: a name, or `base` and what differs from it"
    )
    recipes_by_subset: dict[str, str] = Field(
        default_factory=dict,
        description="subset of the training -> the recipe in place of those that `recipes` does not name",
    )
    seeds: list[StrictInt] | None = Field(None, min_length=1, description="in place of the number of runs of the paper")
    note: str = Field("", description="sentences under the table, in addition to the generated ones")


class Scale(Replacements):
    """What replaces data sets, features, sizes, recipes and seeds of every table that is made at this scale.

    All files of one name, of any paper, are one scale; each of their entries is in one of them.
    """

    opening: str = Field("", description="how the sentence under each table begins; one file of the scale has it")
    paper: bool = Field(
        False,
        description="nothing is replaced; `opening` is said of tables with the settings of their printed numbers alone",
    )
    tables: dict[str, Replacements] = Field(
        default_factory=dict, description="a table (mine/t3) or a folder of tables (mine) -> what else holds there"
    )

    @model_validator(mode="after")
    def _nothing_is_replaced(self) -> Scale:
        said = self.model_fields_set - {"opening", "paper"}
        if self.paper and said:
            raise ValueError(f"paper: true replaces nothing, so {sorted(said)[0]!r} cannot be given")
        return self

    def layers(self, table: str) -> list[tuple[str, Replacements]]:
        """Return what holds for a table, from general to particular, each with its key below `tables` (at first "")."""
        folder = table.rpartition("/")[0]
        return [("", self), *((key, self.tables[key]) for key in (folder, table) if key in self.tables)]


class Titles(Strict):
    """What sentences under tables call data sets and features; those that are not listed go by their id."""

    datasets: dict[str, str] = Field(default_factory=dict, description="data set -> noun phrase")
    features: dict[str, str] = Field(default_factory=dict, description="features -> noun phrase")
    weights: dict[str, str] = Field(default_factory=dict, description="`weights` of a model -> noun phrase")
