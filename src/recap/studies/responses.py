"""What a rater answered, and whether it fits the sheet that it is said to be of."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from recap.core.errors import DataError
from recap.core.problems import first_problem
from recap.settings import Strict
from recap.studies.sheets import Sheets

Answers = dict[str, dict[str, str]]  # number of the item -> question -> answer
Seconds = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]


class Response(Strict):
    """The answers of one rater, as the page saves and sends them."""

    form: Literal["recap study response 1"] = "recap study response 1"
    study: str  #: digest of the sheets
    sheet: str  #: id of the form
    consent: bool = False
    finished: bool = False  #: the rater handed it in; else it is a copy of a half-filled form
    answers: Answers = {}  #: number of the item -> question -> answer
    seconds: dict[str, Seconds] = {}  #: number of the item -> time on the screen
    simulated: bool = False  #: no person answered

    def content(self) -> str:
        """Return the response as canonical JSON: equal responses are equal texts."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, ensure_ascii=False)


def as_response(values: Any) -> Response:
    """Return the response that parsed JSON holds."""
    try:
        return Response.model_validate(values)
    except ValidationError as error:
        problem = first_problem(error, Response)
        raise DataError(f"is no response ({problem}); hand in the file that the form saved") from error


def check_response(response: Response, sheets: Sheets) -> None:
    """Refuse a response that does not fit the study, and a finished one that answers nothing."""
    if response.study != sheets.digest:
        raise DataError("is a response to another study, or to an earlier version of this one")
    numbers = check_answers(response.sheet, response.answers, sheets)
    unknown = sorted(set(response.seconds) - numbers)
    if unknown:
        raise DataError(f"gives seconds of item {unknown[0][:40]!r}, which sheet {response.sheet} does not have")
    if not response.consent:
        raise DataError("does not say that the rater agreed to take part")
    if response.finished and not any(response.answers.values()):
        raise DataError("has no answer")


def check_answers(sheet_id: str, given: Answers, sheets: Sheets) -> set[str]:
    """Refuse answers that do not fit a sheet; return the numbers of the items of that sheet."""
    sheet = sheets.by_id.get(sheet_id)
    if sheet is None:
        raise DataError(f"names sheet {sheet_id[:40]!r}, which the study does not have")
    numbers = {str(number): item for number, item in enumerate(sheet.items, start=1)}
    for number, answers in given.items():
        if number not in numbers:
            raise DataError(f"answers item {number[:40]!r}, which sheet {sheet.id} does not have")
        for question, answer in answers.items():
            if question not in sheets.questions:
                raise DataError(f"answers question {question[:40]!r} of item {number}, which the study does not ask")
            if answer not in sheets.answers(numbers[number]):
                raise DataError(f"item {number}, question {question}: {answer[:40]!r} is no answer that is offered")
    return set(numbers)
