"""Responses of all raters: validated, without duplicates, with the rule by which a rater is left out."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from pydantic import ValidationError

from recap.core import checksums
from recap.core.documents import read_json, write_json
from recap.core.errors import DataError, counted
from recap.core.log import log
from recap.core.problems import first_problem
from recap.settings import Strict
from recap.studies.response_files import Found, read_responses
from recap.studies.responses import Answers, Response, check_answers, check_response
from recap.studies.sheets import Item, Sheet, Sheets

RULES = {
    "unfinished": "did not hand in the form",
    "answered": "left too many items open",
    "wrong_gold": "answered too many gold items wrongly",
    "seconds": "answered too fast",
    "same_position": "chose too often the same position",
    "repeated_person": "had handed in another form of the study",
}


class Rater(Strict):
    """One sheet that was filled in, without anything that names the person."""

    sheet: str
    answers: Answers
    wrong_gold: int  #: gold items answered wrongly or not at all
    excluded: str = ""  #: key of `RULES`, or empty


class Collected(Strict):
    """All responses to a study."""

    study: str  #: digest of the sheets
    simulated: bool  #: at least one response is simulated
    raters: list[Rater]  #: one per sheet that was handed in, also those left out
    duplicates: int  #: responses equal to another of the sheet
    replaced: int  #: responses that a later, different one of the sheet replaced
    refused: list[str]  #: responses that do not fit the study, with the reason

    def excluded(self) -> dict[str, int]:
        """Return how many raters each rule leaves out, every rule named."""
        counts = Counter(rater.excluded for rater in self.raters)
        return {rule: counts[rule] for rule in RULES}

    def used(self) -> list[Rater]:
        """Return the raters that count."""
        return [rater for rater in self.raters if not rater.excluded]


def import_responses(*, sheets: Sheets, paths: Iterable[Path], out: Path) -> Collected:
    """Read, validate and deduplicate responses, apply the exclusion rules, write the result as JSON.

    Args:
        sheets: of the study.
        paths: files or folders, as `read_responses` takes them.
        out: the JSON.
    """
    collected = collect(sheets, read_responses(paths, sheets.digest))
    write_json(out, collected.model_dump(mode="json"))
    checksums.record(out)
    for reason in collected.refused:
        log.warning(f"refused: {reason}")
    left_out = ", ".join(f"{rule} {count}" for rule, count in collected.excluded().items() if count) or "none"
    mark = "SIMULATED responses: " if collected.simulated else ""
    log.info(
        f"{mark}{counted(len(collected.raters), 'rater')}, {len(collected.used())} used, left out by rule: {left_out}; "
        f"{counted(collected.duplicates, 'duplicate')}, {collected.replaced} replaced, "
        f"{len(collected.refused)} refused -> {out}"
    )
    return collected


def read_collected(path: Path, sheets: Sheets) -> Collected:
    """Read what `import_responses` wrote."""
    checksums.check(path)
    try:
        collected = Collected.model_validate(read_json(path))
        if collected.study != sheets.digest:
            raise DataError("is of another study")
        for rater in collected.raters:
            check_answers(rater.sheet, rater.answers, sheets)
            if rater.excluded not in ("", *RULES):
                raise DataError(f"leaves out sheet {rater.sheet} by the unknown rule {rater.excluded[:40]!r}")
        if len({rater.sheet for rater in collected.raters}) < len(collected.raters):
            raise DataError("holds a sheet twice")
    except ValidationError as error:
        problem = first_problem(error, Collected)
        raise DataError(f"{path}: holds no responses to this study ({problem}); import them again") from error
    except DataError as error:
        raise DataError(f"{path}: {error}; import the responses again") from error
    return collected


def collect(sheets: Sheets, found: Iterable[Found]) -> Collected:
    """Return the responses to a study; see `import_responses`."""
    last: dict[str, tuple[Response, str]] = {}  # sheet -> response and person
    duplicates, replaced, refused, kinds = 0, 0, [], set()
    for each in found:
        try:
            if each.response is None:
                raise DataError(each.problem)
            response = each.response
            check_response(response, sheets)
        except DataError as error:
            # A damaged file or the name of a file may hold what is no text in UTF-8.
            refused.append(f"{each.source} {error}".encode("utf-8", "replace").decode())
            continue
        kinds.add(response.simulated)
        before = last.get(response.sheet)
        if before is not None and before[0].content() == response.content():
            duplicates += 1
            continue
        if before is not None and before[0].finished and not response.finished:
            # A copy of a half-filled form that lies beside the finished one.
            replaced += 1
            continue
        replaced += before is not None
        last[response.sheet] = (response, each.rater)
    if not last:
        reason = f"; the first: {refused[0]}" if refused else ""
        raise DataError(f"no valid response to study {sheets.name!r}{reason}")
    if len(kinds) > 1:
        raise DataError("simulated responses lie among those of people; remove one kind")
    return Collected(
        study=sheets.digest,
        simulated=kinds.pop(),
        raters=_raters(sheets, [last[sheet] for sheet in sorted(last)]),
        duplicates=duplicates,
        replaced=replaced,
        refused=refused,
    )


def _raters(sheets: Sheets, responses: list[tuple[Response, str]]) -> list[Rater]:
    """Return the raters; of a person who handed in several forms, the first one counts."""
    by_id, people, raters = sheets.by_id, set(), []
    for response, person in responses:
        sheet = by_id[response.sheet]
        rule = _excluded(sheets, sheet, response)
        if person and person in people:
            rule = "repeated_person"
        people.add(person)
        wrong = _wrong_gold(sheet, response)
        raters.append(Rater(sheet=sheet.id, answers=response.answers, wrong_gold=wrong, excluded=rule))
    return raters


def _excluded(sheets: Sheets, sheet: Sheet, response: Response) -> str:
    """Return the first rule that leaves a rater out, or nothing."""
    rules, total = sheets.study.exclusions, len(sheet.items)
    answered = [item for item, answers in _answers(sheet, response) if len(answers) == len(sheets.questions)]
    if not response.finished:
        return "unfinished"
    if len(answered) < rules.answered * total:
        return "answered"
    if _wrong_gold(sheet, response) > rules.wrong_gold:
        return "wrong_gold"
    if response.seconds and statistics.median(response.seconds.values()) < rules.seconds:
        return "seconds"
    if sheets.study.kind == "preference" and rules.same_position < 1:
        chosen = Counter(answer for _, answers in _answers(sheet, response) for answer in answers.values())
        if max(chosen.values(), default=0) > rules.same_position * sum(chosen.values()):
            return "same_position"
    return ""


def _answers(sheet: Sheet, response: Response) -> list[tuple[Item, dict[str, str]]]:
    """Return every item with the answers to it."""
    return [(item, response.answers.get(str(number), {})) for number, item in enumerate(sheet.items, start=1)]


def _wrong_gold(sheet: Sheet, response: Response) -> int:
    """Return how many gold items were answered wrongly or not at all."""
    return sum(
        any(answers.get(question) != right for question, right in item.right.items())
        for item, answers in _answers(sheet, response)
        if item.gold
    )
