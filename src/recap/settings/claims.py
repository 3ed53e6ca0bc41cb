"""Settings of claims (``params/<paper>/claims.yaml``): the sentences of a paper, and what decides each of them."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, PositiveFloat, model_validator

from recap.settings.base import Id, Strict, check_distinct, exactly_one, together
from recap.settings.kinds import OneOf
from recap.settings.tables import table_columns


class Check(Strict):
    """One comparison of a claim: a row of a table against other rows, a quoted row, or a printed number."""

    table: str = Field(description="name of the table, with its part: mine/t1_f001")
    in_place: str | None = Field(None, description="table of the same rows, read where `table` has one seed or none")
    metrics: list[Annotated[str, OneOf(table_columns)]] = Field(default=["CIDEr"], min_length=1)
    row: Id
    against: Id | list[Id] | None = Field(None, description="id of a row, or of several, of which the best counts")
    quoted: Id | None = Field(None, description="id of a row that the paper quotes")
    printed: float | None = Field(None, description="a printed number in percent")
    sign: Literal["higher", "lower", "equal"] = "higher"
    size: PositiveFloat | None = Field(None, description="printed size of the difference in percent points")
    within: PositiveFloat | None = Field(None, description="points that count as equal, for `sign: equal`")

    _one_opponent = exactly_one("against", "quoted", "printed")
    _equal_within = together("within", when=("sign", "equal"))

    @property
    def rows(self) -> list[str]:
        """The rows that the row is compared with, of which the best counts."""
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
    printed: list[float] = Field([], description="numbers of the sentence, as printed")
    doubt: str = Field("", description="what speaks against the sentence in the paper itself")
    checks: list[Check] = Field([], description="comparisons that all must hold")
    settled: Settled | None = None
    not_for_a_program: str | None = Field(None, min_length=1, description="why no program can judge it")

    _decided_once = exactly_one("checks", "settled", "not_for_a_program")


class ClaimsFile(Strict):
    """``params/<paper>/claims.yaml``."""

    claims: list[Claim] = Field(min_length=1)

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        check_distinct("claims", [claim.id for claim in self.claims])
        return self
