"""The sheets of a study: the items of each rater in order,
with the key that says which system wrote which caption."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from recap.core.checksums import check
from recap.core.documents import read_json
from recap.core.hashing import value_hash
from recap.settings import Study
from recap.settings.base import Strict

# the one question of a preference study; its answer is the number of a caption, from 1
BEST = "best"
YES_NO = ("no", "yes")


class Item(Strict):
    """One task of a rater."""

    image_id: int  #: of the data set
    setup: str = ""  #: column of the study, or empty for a gold item
    systems: list[str] = []  #: who wrote each caption, in the order shown; empty for a gold item
    captions: list[str] = []  #: as shown, one line each
    pictures: list[str] = []  #: files of ``pictures.zip``
    right: dict[str, str] = {}  #: question -> right answer, of a gold item

    @property
    def gold(self) -> bool:
        """Whether the right answer is known."""
        return not self.setup

    @property
    def equal_captions(self) -> bool:
        """Whether two captions are the same, between which a vote is arbitrary."""
        return len(set(self.captions)) < len(self.captions)


class Sheet(Strict):
    """The items of one rater; their numbers on the form are their places in the list, from 1."""

    id: str
    items: list[Item] = Field(min_length=1)

    @property
    def numbered(self) -> dict[str, Item]:
        """The items by number, as answers name them."""
        return {str(number): item for number, item in enumerate(self.items, start=1)}


class Sheets(Strict):
    """All sheets of a study; raters must not see them."""

    form: Literal["recap study 1"] = "recap study 1"
    name: str  #: of the study
    study: Study  #: its settings
    scale: str  #: sentence about how the models were trained
    pictures: dict[str, str]  #: file of ``pictures.zip`` -> file of the data set
    sheets: list[Sheet] = Field(min_length=1)  #: one per rater
    #: hash of all that raters see and of the key, by which forms and responses are recognized
    digest: str = ""

    @model_validator(mode="after")
    def _set_digest(self) -> Self:
        digest = value_hash(
            [self.name, self.questions, [sheet.model_dump(mode="json") for sheet in self.sheets]]
        )
        if self.digest not in ("", digest):
            raise ValueError("the items were changed after they were made")
        self.digest = digest
        return self

    @property
    def preference(self) -> bool:
        """Whether raters choose the best of several captions.

        Else they answer questions about one.
        """
        return self.study.kind == "preference"

    @property
    def questions(self) -> dict[str, str]:
        """Question -> what raters read."""
        if self.preference:
            return {BEST: self.study.instruction}
        return {question.id: question.text for question in self.study.questions}

    def answers(self, item: Item) -> list[str]:
        """Return the answers that a question about an item may have."""
        if not self.preference:
            return list(YES_NO)
        return [str(number) for number, _ in enumerate(item.captions, start=1)]

    @cached_property
    def by_id(self) -> dict[str, Sheet]:
        """The sheets by id."""
        return {sheet.id: sheet for sheet in self.sheets}


def read_sheets(path: Path) -> Sheets:
    """Read ``sheets.json``, which `recap study sheets` wrote."""
    check(path)
    sheets: Sheets = read_json(path, Sheets)
    return sheets
