"""Simulated raters: to try a study before anyone is asked. Every response says that no person gave it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from recap.core import checksums
from recap.core.documents import write_json
from recap.core.errors import counted
from recap.core.hashing import generator
from recap.core.log import log
from recap.studies.responses import Response
from recap.studies.sheets import Item, Sheet, Sheets

_DEFAULT_YES = 0.3


def simulate(sheets: Sheets, out: Path) -> list[Response]:
    """Write one simulated response per sheet to the JSON ``out``; equal sheets give equal bytes."""
    responses = [simulated_response(sheets, sheet) for sheet in sheets.sheets]
    write_json(out, [response.model_dump(mode="json") for response in responses])
    checksums.record(out)
    log.info(f"SIMULATED {counted(len(responses), 'response')}, no person answered -> {out}")
    return responses


def simulated_response(sheets: Sheets, sheet: Sheet) -> Response:
    """Return the answers of one simulated rater: one who clicks at random, or one with the study's probabilities."""
    random = generator(sheets.study.simulated.seed, "study", "simulated", sheet.id)
    clicker = bool(random.random() < sheets.study.simulated.clickers)
    answers = {
        number: {question: _answer(sheets, item, question, clicker, random) for question in sheets.questions}
        for number, item in sheet.numbered.items()
    }
    seconds = {
        number: round(float(random.uniform(1, 2) if clicker else random.lognormal(2.3, 0.4)), 1) for number in answers
    }
    marks = {"consent": True, "finished": True, "simulated": True}
    return Response(study=sheets.digest, sheet=sheet.id, answers=answers, seconds=seconds, **marks)


def _answer(sheets: Sheets, item: Item, question: str, clicker: bool, random: np.random.Generator) -> str:
    options, simulated = sheets.answers(item), sheets.study.simulated
    if not clicker and question in item.right:
        return item.right[question]
    if clicker or item.gold:
        return str(random.choice(options))
    if sheets.preference:
        weights = np.array([simulated.votes.get(system, 1.0) for system in item.systems])
        return str(random.choice(options, p=weights / weights.sum()))
    return "yes" if random.random() < simulated.yes.get(item.systems[0], _DEFAULT_YES) else "no"
