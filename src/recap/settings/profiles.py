"""Settings of profiles, of scales, and of what their sentences call data sets."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PositiveInt

from recap.settings.base import Strict, omitted_at_default, reject_if
from recap.settings.recipes import Execution


def _no_boolean(value: Any) -> Any:
    if isinstance(value, bool):  # pydantic takes true for 1
        raise ValueError("a seed is a whole number")
    return value


Seed = Annotated[int, BeforeValidator(_no_boolean)]  # Snakemake's `--config seeds=[1,2]` has texts


class Profile(Strict):
    """What one run of the workflow makes (``profile.yaml`` of a paper, ``params/demo.yaml``)."""

    name: str = Field(pattern=r"^[a-z0-9_]+$")
    tables: list[str] = Field(
        min_length=1, description="names of tables: mine/t3 is params/mine/tables/t3.yaml"
    )
    figures: list[str] = Field([], description="figures (mine/f7); their tables are made, too")
    scale: str | None = Field(None, description="name of a scale; none: the tables as they are")
    seeds: list[Seed] | None = Field(
        None, min_length=1, description="default: the scale's, or the table's"
    )
    inputs: str = Field(
        "resources", description="folder with the outside files that datasets and features name"
    )
    fetch: bool = Field(
        False, description="fetch and unpack missing outside files, as data_versions.csv lists them"
    )
    keep_archives: bool = Field(
        True, description="false: fetched archives are removed when they are unpacked"
    )
    execution: Execution = Field(
        Execution(), description="how jobs are computed; counts before a recipe's own"
    )
    studies: list[str] = omitted_at_default([], description="names of human studies: mine/t6")
    sample_captions: PositiveInt = Field(10, description="pictures on the contact sheet")

    _distinct = reject_if(
        lambda run: run.seeds and len(set(run.seeds)) < len(run.seeds), "seeds: one is duplicated"
    )


class PaperProfile(Profile):
    """``params/<paper>/profile.yaml``: what is made of a paper at each scale.

    Results are in folders NAME_SCALE.
    """

    tables: list[str] = Field([], description="names of tables that are made at every scale")
    scales: dict[str, dict[str, Any]] = Field(
        min_length=1,
        description=(
            "scale -> keys of a profile that hold there, unless they are given for all scales; an "
            "entry with the key `scale` is another set of tables at that scale"
        ),
    )


ALL = "*"  # key of the replacement for all names without a key


class Replacements(Strict):
    """Replacements for what a table's rows name; `*` is the key for all other names."""

    datasets: dict[str, str] = Field({}, description="data set -> the one in its place")
    subsets: dict[str, str] = Field({}, description="subset -> the one in its place")
    features: dict[str, str] = Field({}, description="features -> those in their place")
    models: dict[str, dict[str, Any]] = Field(
        {}, description="kind of model -> sizes that override those of its file"
    )
    recipes: dict[str, str | dict[str, Any]] = Field(
        {}, description="recipe -> a name, or `base` and what differs"
    )
    recipes_by_subset: dict[str, str] = Field(
        {}, description="subset -> the recipe where `recipes` names none"
    )
    seeds: list[Seed] | None = Field(
        None, min_length=1, description="in place of the number of runs of the paper"
    )
    note: str = Field(
        "", description="sentences under the table, in addition to the generated ones"
    )


class Scale(Replacements):
    """What replaces data sets, features, sizes,
    recipes and seeds of every table that is made at this scale.

    All files of one name, of any paper, are one scale; each of their entries is in one of them.
    """

    opening: str = Field(
        "", description="how the sentence under each table begins; one file of the scale has it"
    )
    paper: bool = Field(
        False,
        description="nothing is replaced; `opening` is for tables with the printed settings alone",
    )
    tables: dict[str, Replacements] = Field(
        {}, description="table (mine/t3) or folder (mine) -> what else holds there"
    )

    _nothing_is_replaced = reject_if(
        lambda scale: scale.paper and scale.model_fields_set - {"opening", "paper"},
        "paper: true replaces nothing; leave every other key but `opening` out",
    )

    def layers(self, table: str) -> list[tuple[str, Replacements]]:
        """Return what holds for a table, from general to particular,
        each with its key below `tables` (at first "")."""
        folder = table.rpartition("/")[0]
        return [
            ("", self),
            *((key, self.tables[key]) for key in (folder, table) if key in self.tables),
        ]


class Titles(Strict):
    """What sentences call data sets, and what legends add to labels.

    Those that are not listed go by their id.
    """

    datasets: dict[str, str] = Field({}, description="data set -> noun phrase")
    short: dict[str, str] = Field(
        {},
        description=(
            "data set, subset, features, model or recipe -> words behind a label in a legend"
        ),
    )
