"""The table of a study in the paper's layout: votes per setup, or answers per question."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from recap.core import checksums
from recap.core.errors import counted
from recap.core.files import cell, csv_text
from recap.core.log import log
from recap.reporting.content import NONE, Block, Content, Entry, Line
from recap.reporting.tables import write_formats
from recap.reporting.text import p_text, plain
from recap.studies.analysis import LEVEL, PEARSON
from recap.studies.collect import RULES
from recap.studies.sheets import Sheets

INTERVAL = f"{LEVEL:.0%} interval"
SIMULATED = "SIMULATED raters: no person answered, and nothing here says anything about the systems"


def write_study_table(*, name: str, sheets: Sheets, statistics: Mapping[str, Any], out: Path) -> list[Path]:
    """Write ``<name>.tex``, ``.csv``, ``.html`` and ``.md``; equal statistics give equal bytes."""
    content, numbers = study_content(sheets, statistics), csv_table(sheets, statistics)
    paths = write_formats(out / name, content, numbers, name=sheets.name)
    checksums.record(*paths)
    log.info(f"study {sheets.name}: {counted(len(statistics['blocks']), 'block')} -> {paths[-1]}")
    return paths


def study_content(sheets: Sheets, statistics: Mapping[str, Any]) -> Content:
    """Return the table of a study."""
    study = sheets.study
    scale = f"{SIMULATED}. {plain(sheets.scale)}" if statistics["simulated"] else plain(sheets.scale)
    if study.kind == "preference":
        content = Content(plain(study.title), scale, [plain(setup.label) for setup in study.setups])
        content.blocks = _votes(sheets, statistics)
    else:
        content = Content(plain(study.title), scale, [plain(system.label) for system in study.systems])
        content.blocks = _answers(sheets, statistics)
    content.notes = _notes(sheets, statistics)
    return content


def _votes(sheets: Sheets, statistics: Mapping[str, Any]) -> list[Block]:
    """Return a block per system: its votes in percent, the interval, and what the paper prints."""
    blocks = statistics["blocks"]
    found = []
    for place, system in enumerate(sheets.study.systems):
        cells = [block["systems"][system.id] for block in blocks]
        lines = [
            Line("votes, percent", [Entry(_number(cell["share"], 1, 100)) for cell in cells]),
            Line(INTERVAL, [Entry(_range(cell)) for cell in cells]),
            Line("votes", [Entry(str(cell["votes"])) for cell in cells]),
        ]
        printed = [sheets.study.printed.get(block["id"], {}).get("share") for block in blocks]
        if any(printed):
            numbers = [values[place] if values else None for values in printed]
            lines.append(Line("printed", [Entry(_number(number, 1)) for number in numbers]))
        found.append(Block(plain(system.label), lines))
    return [*found, Block("All systems", _tests(blocks, "against equal shares"))]


def _answers(sheets: Sheets, statistics: Mapping[str, Any]) -> list[Block]:
    """Return a block per question: counts of no and yes, and the share of no."""
    found = []
    for number, (question, block) in enumerate(zip(sheets.study.questions, statistics["blocks"], strict=True), start=1):
        cells = [block["systems"][system.id] for system in sheets.study.systems]
        lines = [Line(answer, [Entry(str(cell[answer])) for cell in cells]) for answer in ("no", "yes")]
        lines.append(Line("no rate", [Entry(_number(cell["share"], 2)) for cell in cells]))
        lines.append(Line(INTERVAL, [Entry(_range(cell)) for cell in cells]))
        printed = sheets.study.printed.get(question.id, {})
        for name, digits in (("no", 0), ("yes", 0), ("no rate", 2)):
            if name in printed:
                entries = [Entry(_number(value, digits)) for value in printed[name]]
                lines.append(Line(f"printed: {name}", entries))
        found.append(Block(f"Q{number}. {plain(question.text)}", lines))
    return found


def _tests(blocks: list[Mapping[str, Any]], against: str) -> list[Line]:
    """Return the lines of the chi-square tests and of the agreement."""
    tests = [block["test"] for block in blocks]
    return [
        Line(f"chi-square {against}", [Entry(_number(test["chi_square"], 1)) for test in tests]),
        Line("p (Holm)", [Entry(_p(test["p_holm"])) for test in tests]),
        Line("Fleiss' kappa", [Entry(_number(block["fleiss_kappa"], 2)) for block in blocks]),
        Line("Krippendorff's alpha", [Entry(_number(block["krippendorff_alpha"], 2)) for block in blocks]),
    ]


def _notes(sheets: Sheets, statistics: Mapping[str, Any]) -> list[str]:
    """Return the sentences below the table."""
    study, blocks = sheets.study, statistics["blocks"]
    notes = []
    if study.kind == "preference":
        degrees = next((block["test"]["degrees"] for block in blocks if block["test"]["degrees"]), None)
        notes.append(
            f"{study.images} test images per column, {study.raters} raters per image. Test: Pearson chi-square against "
            f"equal shares, {degrees} degrees of freedom; p Holm-corrected over the columns."
        )
        columns = zip(study.setups, (block["test"]["p_by"] for block in blocks), strict=True)
        exact = [f"{plain(setup.label)} ({p_by})" for setup, p_by in columns if p_by not in (None, PEARSON)]
        if exact:
            notes.append(f"Too few votes for the chi-square distribution; p from another: {', '.join(exact)}.")
        equal = [block["images_with_equal_captions"] for block in blocks]
        if any(equal):
            counts = ", ".join(map(str, equal))
            notes.append(f"Images with two equal captions, between which a vote is arbitrary: {counts}, by column.")
    else:
        notes.append(f"{study.images} test images per system, {study.raters} raters per image and system.")
        notes += [_question_note(f"Q{number}", block) for number, block in enumerate(blocks, start=1)]
    notes.append(
        "The tests count answers as independent, as the paper does; answers of one rater, or about one image, are not."
    )
    if study.printed:
        notes.append(f"Printed: {plain(study.source)}")
    excluded = [f"{count} {RULES[rule]}" for rule, count in statistics["excluded"].items() if count]
    left_out = f"; left out: {', '.join(excluded)}" if excluded else "; none left out"
    kind = "simulated raters" if statistics["simulated"] else "raters"
    used = f"{statistics['used']} {kind} used{left_out}"
    notes.append(f"{statistics['sheets']} forms, {statistics['raters']} handed in, {used}.")
    return [*notes, *([plain(study.note)] if study.note else [])]


def _question_note(name: str, block: Mapping[str, Any]) -> str:
    """Return the test and the agreement of one question."""
    test = block["test"]
    agreement = (
        f"Fleiss' kappa {_number(block['fleiss_kappa'], 2)} ({block['fleiss_items']} captions), "
        f"Krippendorff's alpha {_number(block['krippendorff_alpha'], 2)}"
    )
    if test["p"] is None:
        return f"{name}: no test ({test['reason']}); {agreement}."
    return (
        f"{name}: Pearson chi-square of the models' answers {_number(test['chi_square'], 1)}, {test['degrees']} "
        f"degrees of freedom, p {_p(test['p_holm'])} ({test['p_by']}, Holm over the questions); {agreement}."
    )


def csv_table(sheets: Sheets, statistics: Mapping[str, Any]) -> str:
    """Return one line per setup or question and system with all numbers; shares are fractions."""
    counts = ["votes"] if sheets.study.kind == "preference" else ["no", "yes"]
    tests = ["chi_square", "degrees", "p", "p_holm", "p_by", "effect"]
    agreement = ["fleiss_kappa", "fleiss_items", "krippendorff_alpha"]
    columns = ["study", "raters", "block", "system", "label", *counts, "share", "low", "high"]
    rows: list[list[Any]] = [[*columns, "printed", *tests, *agreement, "raters_used"]]
    raters = "simulated" if statistics["simulated"] else "people"
    line = "share" if sheets.study.kind == "preference" else "no rate"
    for block in statistics["blocks"]:
        printed = sheets.study.printed.get(block["id"], {}).get(line)
        for place, system in enumerate(sheets.study.systems):
            values = [
                *(sheets.name, raters, block["id"], system.id, plain(system.label)),
                *(block["systems"][system.id][name] for name in (*counts, "share", "low", "high")),
                printed[place] if printed else None,
                *(block["test"][name] for name in tests),
                *(block[name] for name in agreement),
                statistics["used"],
            ]
            rows.append([cell(value) for value in values])
    return csv_text(rows)


def _range(cell: Mapping[str, Any]) -> str:
    return NONE if cell["low"] is None else f"{100 * cell['low']:.1f} to {100 * cell['high']:.1f}"


def _number(value: float | None, digits: int, scale: int = 1) -> str:
    # + 0.0: no minus before what rounds to zero
    return NONE if value is None else f"{round(scale * value, digits) + 0.0:.{digits}f}"


def _p(value: float | None) -> str:
    return NONE if value is None else p_text(value)
