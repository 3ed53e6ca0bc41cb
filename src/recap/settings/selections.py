"""Settings of choices that a table makes on the validation split (key ``selections`` of a table)."""

from __future__ import annotations

from pydantic import Field

from recap.settings.base import Strict
from recap.settings.names import Id


class Selection(Strict):
    """A line of a table that shows one of several rows: the one whose validation score is best.

    The score of a row is the mean over the seeds of the best CIDEr-D that its training's validations gave. Of equal
    ones the first is chosen. The rows are trained and scored anyway; no test score is read to choose.
    """

    id: Id
    label: str
    over: list[Id] = Field(min_length=2, description="ids of rows of one data set, subset and stage")
