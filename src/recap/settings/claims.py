"""Settings of claims (``params/<paper>/claims.yaml``): the sentences of a paper, and what decides each of them."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, PositiveFloat, model_validator

from recap.core.errors import nearest
from recap.settings.base import Strict
from recap.settings.columns import table_columns
from recap.settings.names import Id


def _known_metrics(names: list[str]) -> list[str]:
    known = table_columns()
    for name in names:
        if name not in known:
            raise ValueError(f"unknown column {name!r}; {nearest(name, known)}")
    return names


class Check(Strict):
    """One comparison of a claim: a row of a table against other rows, a quoted row, or a printed number."""

    table: str = Field(description="name of the table, with its part: mine/t1_f001")
    in_place: str | None = Field(
        None, description="table of the same rows, read at scales that do not make `table` or make it with one seed"
    )
    metrics: Annotated[list[str], AfterValidator(_known_metrics)] = Field(default=["CIDEr"], min_length=1)
    row: Id
    against: Id | list[Id] | None = Field(None, description="id of a row, or of several, of which the best counts")
    quoted: Id | None = Field(None, description="id of a row that the paper quotes")
    printed: float | None = Field(None, description="a printed number in percent")
    sign: Literal["higher", "lower", "equal"] = "higher"
    size: PositiveFloat | None = Field(None, description="printed size of the difference in percent points")
    within: PositiveFloat | None = Field(None, description="points that count as equal, for `sign: equal`")

    @model_validator(mode="after")
    def _one_opponent(self) -> Self:
        if sum(value is not None for value in (self.against, self.quoted, self.printed)) != 1:
            raise ValueError("give one of `against`, `quoted` and `printed`")
        if (self.sign == "equal") != (self.within is not None):
            raise ValueError("`within` belongs to `sign: equal`, and only there")
        return self

    @property
    def rows(self) -> list[str]:
        """Return the rows that the row is compared with, of which the best counts."""
        return [self.against] if isinstance(self.against, str) else self.against or []


class Settled(Strict):
    """A verdict that no training can change, such as a sum or a count."""

    holds: bool
    why: str = Field(min_length=1, description="the sum, or where the count is checked")


class Claim(Strict):
    """One sentence of a paper."""

    id: Annotated[str, Field(pattern=r"^[a-z0-9_]+\.c[0-9]+$")]
    sentence: str
    where: str = Field(description="section of the paper, or `abstract`")
    printed: list[float] = Field(default_factory=list, description="numbers of the sentence, as printed")
    doubt: str = Field("", description="what speaks against the sentence in the paper itself")
    checks: list[Check] = Field(default_factory=list, description="comparisons that all must hold")
    settled: Settled | None = None
    not_for_a_program: str | None = Field(None, min_length=1, description="why no program can judge it")

    @model_validator(mode="after")
    def _decided_once(self) -> Self:
        if sum(map(bool, (self.checks, self.settled, self.not_for_a_program))) != 1:
            raise ValueError(f"{self.id}: give one of `checks`, `settled` and `not_for_a_program`")
        return self


class ClaimsFile(Strict):
    """``params/<paper>/claims.yaml``."""

    claims: list[Claim] = Field(min_length=1)

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        ids = [claim.id for claim in self.claims]
        duplicate = next((each for each in ids if ids.count(each) > 1), None)
        if duplicate:
            raise ValueError(f"two claims have the id {duplicate!r}; give each a different id")
        return self
