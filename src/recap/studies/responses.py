"""Responses of all raters: read from files, validated,
without duplicates, with the rule that leaves a rater out."""

from __future__ import annotations

import csv
import json
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field, ValidationError

from recap.core import checksums
from recap.core.documents import first_problem, read_json, write_json
from recap.core.errors import DataError, MissingData, counted
from recap.core.files import reading
from recap.core.hashing import generator
from recap.core.log import log
from recap.settings.base import Strict
from recap.settings.studies import RESPONSE_ENDINGS
from recap.studies.sheets import Item, Sheet, Sheets, read_sheets

Answers = dict[str, dict[str, str]]  # number of the item -> question -> answer
Seconds = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]
RULES = {
    "unfinished": "did not hand in the form",
    "answered": "left more items open than the study allows",
    "wrong_gold": "answered more gold items wrongly than the study allows",
    "seconds": "answered too fast",
    "same_position": "chose too often the same position",
    "repeated_person": "had handed in another form of the study",
}
_CROWD = re.compile(r"Answer\.(\d+)\.([a-z0-9_.]+?)(?:\.(no|yes|\d))?$")
_TYPED = ("sheet", "item", "question", "answer")
_NUMBER = re.compile(r"0*([0-9]+?)(\.0+)?")
_YES = 0.3  # share of yes of simulated raters, where the study does not say
_TRUE = ("true", "on", "yes")


class Response(Strict):
    """The answers of one rater, as the page saves them."""

    form: Literal["recap study response 1"] = "recap study response 1"
    study: str  #: digest of the sheets
    sheet: str  #: id of the form
    consent: bool = False
    finished: bool = False  #: the rater handed it in; else it is a copy of a half-filled form
    answers: Answers = {}
    seconds: dict[str, Seconds] = {}  #: number of the item -> time on the screen
    simulated: bool = False  #: no person answered


class Rater(Strict):
    """One sheet that was filled in, without anything that names the person."""

    sheet: str
    answers: Answers
    wrong_gold: int  #: gold items answered wrongly or not at all
    excluded: str = ""  #: the rule of `RULES` by which the rater does not count, if any


class Collected(Strict):
    """All responses to a study."""

    study: str  #: digest of the sheets
    simulated: bool  #: at least one response is simulated
    raters: list[Rater]  #: one per sheet that was handed in, also those left out
    duplicates: int  #: responses equal to another of the sheet
    replaced: int  #: responses that a later, different one of the sheet replaced
    ignored: int = 0  #: half-filled copies of a sheet whose finished form counts
    refused: list[str]  #: responses that do not fit the study, with the reason

    def excluded(self) -> dict[str, int]:
        """Return how many raters each rule leaves out, every rule named."""
        counts = Counter(rater.excluded for rater in self.raters)
        return {rule: counts[rule] for rule in RULES}

    def left_out(self) -> str:
        """Return the rules that leave raters out, with how many; "": none does."""
        counts = self.excluded().items()
        return ", ".join(f"{rule} {count}" for rule, count in counts if count)

    def used(self) -> list[Rater]:
        """Return the raters that count."""
        return [rater for rater in self.raters if not rater.excluded]


class Submission(NamedTuple):
    """What a file holds in place of a response, before it is validated."""

    source: str  #: file, and line or form
    values: Any  #: of a `Response`
    #: who answered, if the file tells one person from another; never written anywhere
    person: str = ""


def valid_response(values: Any, sheets: Sheets) -> Response:
    """Return the response that parsed JSON is.

    One that does not fit the study, or that answers nothing, is refused.
    """
    try:
        response = Response.model_validate(values)
    except ValidationError as error:
        problem = first_problem(error, Response)
        raise DataError(
            f"is no response ({problem}); hand in the file that the form saved"
        ) from error
    if response.study != sheets.digest:
        raise DataError("is a response to another study, or to an earlier version of this one")
    if response.sheet not in sheets.by_id:
        raise DataError(f"names sheet {response.sheet[:40]!r}, which the study does not have")
    _check_answers(response, sheets)
    if not response.consent:
        raise DataError("does not say that the rater agreed to take part")
    if response.finished and not any(response.answers.values()):
        raise DataError("has no answer")
    return response


def _check_answers(response: Response, sheets: Sheets) -> None:
    """Refuse answers to what the sheet does not ask."""
    items = sheets.by_id[response.sheet].numbered
    unknown = sorted((response.answers.keys() | response.seconds) - items.keys())
    if unknown:
        raise DataError(
            f"names item {unknown[0][:40]!r}, which sheet {response.sheet} does not have"
        )
    for number, answers in response.answers.items():
        for question, answer in answers.items():
            if question not in sheets.questions or answer not in sheets.answers(items[number]):
                raise DataError(
                    f"item {number}, question {question[:40]!r}: {answer[:40]!r} is no answer to "
                    "choose"
                )


def read_responses(paths: Iterable[Path], study: str) -> Iterator[Submission]:
    """Yield the responses of files and folders, in the order of their names.

    ``.json``: a page's file. ``.csv``: a crowd platform's results (``Input.sheet``,
    ``Answer.<item>.<question>``), or what was typed from paper forms
    (``sheet,item,question,answer``), which do not name the ``study``.
    """
    for path in paths:
        if not path.exists():
            raise MissingData(f"{path}: no such file or folder of responses")
        files = sorted(path.iterdir()) if path.is_dir() else [path]
        files = [file for file in files if file.suffix in RESPONSE_ENDINGS]
        if not files:
            endings = ", ".join(RESPONSE_ENDINGS)
            raise DataError(f"{path}: holds no responses ({endings}); put them there")
        for file in files:
            with reading(file, damaged="restore it, or leave it out"):
                if file.suffix == ".csv":
                    yield from _csv_responses(file, study)
                else:
                    yield from _json_responses(file)


def _json_responses(path: Path) -> Iterator[Submission]:
    """Yield the response of a page, or those of `recap study simulate`."""
    content = parsed(path.read_bytes())
    if not isinstance(content, list):
        yield Submission(str(path), content)
        return
    for number, each in enumerate(content, start=1):
        yield Submission(f"{path} response {number}", each)


def parsed(content: bytes) -> Any:
    """Return what JSON holds, or None: damaged JSON is no response."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def _csv_responses(path: Path, study: str) -> Iterator[Submission]:
    rows = []
    with path.open(encoding="utf-8-sig", newline="") as file:
        for row in csv.DictReader(file):
            rows.append({name: (row[name] or "").strip() for name in row if name})
    names = rows[0].keys() if rows else set()
    if "Input.sheet" in names:
        yield from _crowd_responses(path, rows, study)
    elif names >= set(_TYPED):
        yield from _typed_responses(path, rows, study)
    else:
        raise DataError(
            f"{path}: needs the columns {', '.join(_TYPED)}, or Input.sheet and "
            "Answer.<item>.<question>"
        )


def _crowd_responses(
    path: Path, rows: Sequence[dict[str, str]], study: str
) -> Iterator[Submission]:
    """Yield what a crowd platform saved: a line a form."""
    for line, row in enumerate(rows, start=2):
        agreed = [row.get("Answer.consent", ""), row.get("Answer.consent.on", "")]
        answers: Answers = {}
        # a question has one column of values, or one of true and false each
        for column, value in row.items():
            match = _CROWD.fullmatch(column)
            if match and value and (match[3] is None or value.lower() in _TRUE):
                answers.setdefault(match[1], {})[match[2]] = match[3] or value
        values = _values(study, row["Input.sheet"], answers)
        values["consent"] = any(text.lower() in _TRUE for text in agreed)
        yield Submission(f"{path} line {line}", values, row.get("WorkerId", ""))


def _typed_responses(
    path: Path, rows: Iterable[dict[str, str]], study: str
) -> Iterator[Submission]:
    """Yield what was typed from paper, a line an answer; raters agree by handing it in."""
    sheets: dict[str, Answers] = {}
    for row in rows:
        item = _number(row["item"])
        answer = _number(row["answer"])
        of_item = sheets.setdefault(_number(row["sheet"]), {}).setdefault(item, {})
        if of_item.setdefault(row["question"], answer) != answer:
            of_item[row["question"]] += f" and {answer}"  # is no answer to choose
    for sheet, answers in sheets.items():
        yield Submission(f"{path} sheet {sheet.zfill(3)}", _values(study, sheet, answers))


def _values(study: str, sheet: str, answers: Answers) -> dict[str, object]:
    """Return a finished response that says yes to the study, before it is validated."""
    number = _number(sheet).zfill(3)
    return {
        "study": study,
        "sheet": number,
        "consent": True,
        "finished": True,
        "answers": answers,
    }


def _number(text: str) -> str:
    """Return the number of a sheet, item or answer as typed or by a spreadsheet (``2.0``)."""
    match = _NUMBER.fullmatch(text)
    return match[1] if match else text


def simulate(*, sheets: Path, out: Path) -> None:
    """Write a response per sheet that no person gave, and that says so.

    Equal sheets give equal bytes.
    """
    forms = read_sheets(sheets)
    responses = [simulated_response(forms, sheet) for sheet in forms.sheets]
    write_json(out, [response.model_dump(mode="json") for response in responses])
    checksums.record(out)
    log.info(f"SIMULATED {counted(len(responses), 'response')}, no person answered -> {out}")


def simulated_response(sheets: Sheets, sheet: Sheet) -> Response:
    """Return a simulated rater's answers: at random, or by the study's probabilities."""
    simulated = sheets.study.simulated
    random = generator(simulated.seed, "study", "simulated", sheet.id)
    clicker = bool(random.random() < simulated.clickers)

    def answer(item: Item, question: str) -> str:
        options = sheets.answers(item)
        if not clicker and question in item.right:
            return item.right[question]
        if clicker or item.gold:
            return str(random.choice(options))
        if sheets.preference:
            weights = np.array([simulated.votes.get(system, 1.0) for system in item.systems])
            return str(random.choice(options, p=weights / weights.sum()))
        return "yes" if random.random() < simulated.yes.get(item.systems[0], _YES) else "no"

    answers = {}
    for number, item in sheet.numbered.items():
        answers[number] = {question: answer(item, question) for question in sheets.questions}
    seconds = {}
    for number in answers:
        time = random.uniform(1, 2) if clicker else random.lognormal(2.3, 0.4)
        seconds[number] = round(float(time), 1)
    return Response(
        study=sheets.digest,
        sheet=sheet.id,
        consent=True,
        finished=True,
        answers=answers,
        seconds=seconds,
        simulated=True,
    )


def import_responses(*, sheets: Path, responses: Sequence[Path], out: Path) -> Collected:
    """Read, validate and deduplicate responses, apply the exclusion rules, write JSON."""
    forms = read_sheets(sheets)
    collected = collect(forms, read_responses(responses, forms.digest))
    write_json(out, collected.model_dump(mode="json"))
    checksums.record(out)
    for reason in collected.refused:
        log.warning(f"refused: {reason}")
    mark = "SIMULATED responses: " if collected.simulated else ""
    log.info(
        f"{mark}{counted(len(collected.raters), 'rater')}, {len(collected.used())} used, left out "
        f"by rule: {collected.left_out() or 'none'}; "
        f"{counted(collected.duplicates, 'duplicate')}, {collected.replaced} replaced, "
        f"{collected.ignored} ignored, {len(collected.refused)} refused -> {out}"
    )
    return collected


def read_collected(path: Path, sheets: Sheets) -> Collected:
    """Read what `import_responses` wrote."""
    checksums.check(path)
    collected: Collected = read_json(path, Collected)
    if collected.study != sheets.digest:
        raise DataError(f"{path}: is of another study; import the responses again")
    return collected


def collect(sheets: Sheets, submissions: Iterable[Submission]) -> Collected:
    """Return the responses to a study; see `import_responses`."""
    last: dict[str, tuple[Response, str]] = {}  # sheet -> response and person
    duplicates = replaced = ignored = 0
    refused: list[str] = []
    kinds = set[bool]()
    for source, values, person in submissions:
        try:
            response = valid_response(values, sheets)
        except DataError as error:
            # A damaged file or the name of a file may hold what is no text in UTF-8.
            refused.append(f"{source} {error}".encode("utf-8", "replace").decode())
            continue
        kinds.add(response.simulated)
        if response.sheet in last:
            earlier, _ = last[response.sheet]
            if earlier == response:
                duplicates += 1
                continue
            # A copy of a half-filled form may lie beside the finished one, which counts.
            if earlier.finished and not response.finished:
                ignored += 1
                continue
            replaced += 1
        last[response.sheet] = response, person
    if not last:
        reason = f"; the first: {refused[0]}" if refused else ""
        raise DataError(f"no valid response to study {sheets.name!r}{reason}")
    if len(kinds) > 1:
        raise DataError("simulated responses lie among those of people; remove one kind")
    return Collected(
        study=sheets.digest,
        simulated=kinds.pop(),
        raters=_raters(sheets, last),
        duplicates=duplicates,
        replaced=replaced,
        ignored=ignored,
        refused=refused,
    )


def _raters(sheets: Sheets, responses: Mapping[str, tuple[Response, str]]) -> list[Rater]:
    """Return the rater of each sheet, in the order of the sheets, with the rule that excludes."""
    raters = []
    people = set[str]()
    for sheet, (response, person) in sorted(responses.items()):
        rule, wrong = _excluded(sheets, sheets.by_id[sheet], response)
        if person and person in people:  # of several forms that with the lowest number counts
            rule = "repeated_person"
        people.add(person)
        raters.append(Rater(sheet=sheet, answers=response.answers, wrong_gold=wrong, excluded=rule))
    return raters


def _excluded(sheets: Sheets, sheet: Sheet, response: Response) -> tuple[str, int]:
    """Return the first rule that excludes a rater, if any, and the count of wrong gold items."""
    rules = sheets.study.exclusions
    rated = [(item, response.answers.get(number, {})) for number, item in sheet.numbered.items()]
    wrong = sum(not answers.items() >= item.right.items() for item, answers in rated if item.gold)
    if not response.finished:
        return "unfinished", wrong
    answered = sum(len(answers) == len(sheets.questions) for _, answers in rated)
    if answered < rules.answered * len(rated):
        return "answered", wrong
    if wrong > rules.wrong_gold:
        return "wrong_gold", wrong
    if response.seconds and statistics.median(response.seconds.values()) < rules.seconds:
        return "seconds", wrong
    positions = Counter[str]()
    for _, answers in rated:
        positions.update(answers.values())
    most = max(positions.values(), default=0)
    if sheets.preference and most > rules.same_position * positions.total():
        return "same_position", wrong
    return "", wrong
