"""The table of a study in the paper's layout: votes per setup, or answers per question."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from recap.core import checksums
from recap.core.documents import adapter, write_json
from recap.core.errors import counted
from recap.core.files import csv_text, csv_value
from recap.core.log import log
from recap.statistics.comparison import LEVEL
from recap.studies.analysis import PEARSON, BlockResult, StudyResult, analyse
from recap.studies.responses import RULES, read_collected
from recap.studies.sheets import Sheets, read_sheets
from recap.tables.formats import write_formats
from recap.tables.text import (
    Block,
    Line,
    TextTable,
    columns_of,
    interval_text,
    number_text,
    p_text,
    plain,
    text_line,
)

INTERVAL = f"{LEVEL:.0%} interval"
SIMULATED = "SIMULATED raters: no person answered, and nothing here says anything about the systems"
_COLUMNS = (
    "share",
    "low",
    "high",
    "printed",
    "chi_square",
    "degrees",
    "p",
    "p_holm",
    "p_by",
    "effect",
    "fleiss_kappa",
    "fleiss_items",
    "krippendorff_alpha",
    "raters_used",
)
_DEPENDENT = (
    "The tests count answers as independent, as the paper does; answers of one rater, or about one "
    "image, are not."
)


def analyse_study(*, sheets: Path, responses: Path, statistics: Path, out: Path, name: str) -> None:
    """Write a study's numbers as JSON, and ``<name>.tex``, .csv, .html and .md into ``out``."""
    forms = read_sheets(sheets)
    numbers = analyse(forms, read_collected(responses, forms))
    write_json(statistics, adapter(StudyResult).dump_python(numbers, mode="json"))
    checksums.record(statistics)
    paths = write_formats(
        out / name, study_table(forms, numbers), _csv_table(forms, numbers), name=forms.name
    )
    checksums.record(*paths)
    log.info(f"study {forms.name}: {counted(len(numbers.blocks), 'block')} -> {paths[-1]}")


def study_table(sheets: Sheets, statistics: StudyResult) -> TextTable:
    """Return the table of a study."""
    study = sheets.study
    columns = study.setups if sheets.preference else study.systems
    labels = [plain(column.label) for column in columns]
    content = TextTable(plain(study.title), plain(sheets.scale), columns_of(labels))
    if statistics.simulated:
        content.scale = f"{SIMULATED}. {content.scale}"
    fill = _votes if sheets.preference else _answers
    content.blocks, content.notes = fill(sheets, statistics.blocks)
    content.notes.append(_DEPENDENT)
    if study.printed:
        content.notes.append(f"Printed: {plain(study.source)}")
    excluded = [f"{count} {RULES[rule]}" for rule, count in statistics.excluded.items() if count]
    left_out = f"left out: {', '.join(excluded)}" if excluded else "none left out"
    raters = "simulated raters" if statistics.simulated else "raters"
    content.notes.append(
        f"{statistics.sheets} forms, {statistics.raters} handed in, {statistics.used} "
        f"{raters} used; {left_out}."
    )
    if study.note:
        content.notes.append(plain(study.note))
    return content


def _votes(sheets: Sheets, blocks: Sequence[BlockResult]) -> tuple[list[Block], list[str]]:
    """Return a block per system, its votes and what the paper prints; one of tests; and notes."""
    study = sheets.study
    printed = [study.printed.get(block.id, {}).get("share") for block in blocks]
    table = []
    for place, system in enumerate(study.systems):
        cells = [block.systems[system.id] for block in blocks]
        percent = [cell.share and 100 * cell.share for cell in cells]
        intervals = [interval_text(cell.low, cell.high, 1, scale=100) for cell in cells]
        lines = [
            _number_line("votes, percent", percent, 1),
            text_line(INTERVAL, intervals),
            text_line("votes", [cell.votes for cell in cells]),
        ]
        if any(printed):
            lines.append(
                _number_line("printed", [each[place] if each else None for each in printed], 1)
            )
        table.append(Block(plain(system.label), lines))
    table.append(Block("All systems", _vote_tests(blocks)))
    return table, _vote_notes(sheets, blocks)


def _vote_tests(blocks: Sequence[BlockResult]) -> list[Line]:
    """Return lines of the test and of agreement, a cell a setup."""
    tests = [block.test for block in blocks]
    return [
        _number_line("chi-square against equal shares", [test.chi_square for test in tests], 1),
        text_line("p (Holm)", [p_text(test.p_holm) for test in tests]),
        _number_line("Fleiss' kappa", [block.fleiss_kappa for block in blocks], 2),
        _number_line("Krippendorff's alpha", [block.krippendorff_alpha for block in blocks], 2),
    ]


def _vote_notes(sheets: Sheets, blocks: Sequence[BlockResult]) -> list[str]:
    study = sheets.study
    degrees = next((block.test.degrees for block in blocks if block.test.degrees), None)
    notes = [
        f"{study.images} test images per column, each on the forms of {study.raters} raters. Test: "
        f"Pearson chi-square against equal shares, {degrees} degrees of freedom; p "
        "Holm-corrected over the columns."
    ]
    exact = []
    for block in blocks:
        if block.test.p_by not in (None, PEARSON):
            exact.append(f"{plain(block.label)} ({block.test.p_by})")
    if exact:
        notes.append(
            f"Too few votes for the chi-square distribution; p from another: {', '.join(exact)}."
        )
    equal = [block.images_with_equal_captions for block in blocks]
    if any(equal):
        counts = ", ".join(map(str, equal))
        notes.append(
            f"Images with two equal captions, between which a vote is arbitrary: {counts}, by "
            "column."
        )
    return notes


def _answers(sheets: Sheets, blocks: Sequence[BlockResult]) -> tuple[list[Block], list[str]]:
    """Return a block per question: counts of no and yes, and the share of no; and notes."""
    study = sheets.study
    table = []
    notes = [
        f"{study.images} test images, each on the forms of {study.raters} raters for each system."
    ]
    for number, (question, block) in enumerate(zip(study.questions, blocks, strict=True), start=1):
        cells = [block.systems[system.id] for system in study.systems]
        lines = [
            text_line("no", [cell.no for cell in cells]),
            text_line("yes", [cell.yes for cell in cells]),
            _number_line("no rate", [cell.share for cell in cells], 2),
            text_line(INTERVAL, [interval_text(cell.low, cell.high, 2) for cell in cells]),
        ]
        printed = study.printed.get(question.id, {})
        for name, digits in {"no": 0, "yes": 0, "no rate": 2}.items():
            if printed.get(name):
                lines.append(_number_line(f"printed: {name}", printed[name], digits))
        table.append(Block(f"Q{number}. {plain(question.text)}", lines))
        notes.append(f"Q{number}: {_answer_note(block)}.")
    return table, notes


def _answer_note(block: BlockResult) -> str:
    """Return the test of a question and how far raters agree."""
    test = block.test
    note = f"no test ({test.reason})"
    if test.p is not None:
        note = (
            f"Pearson chi-square of the models' answers {number_text(test.chi_square, 1)}, "
            f"{test.degrees} degrees of freedom, p {p_text(test.p_holm)} "
            f"({test.p_by}, Holm over the questions)"
        )
    kappa = number_text(block.fleiss_kappa, 2)
    alpha = number_text(block.krippendorff_alpha, 2)
    return (
        f"{note}; Fleiss' kappa {kappa} ({block.fleiss_items} captions), Krippendorff's alpha "
        f"{alpha}"
    )


def _csv_table(sheets: Sheets, statistics: StudyResult) -> str:
    """Return one line per setup or question and system with all numbers; shares are fractions."""
    counts = ["votes"] if sheets.preference else ["no", "yes"]
    line = "share" if sheets.preference else "no rate"
    columns = ["study", "raters", "block", "system", "label", *counts, *_COLUMNS]
    rows = [columns]
    for block in statistics.blocks:
        printed = sheets.study.printed.get(block.id, {}).get(line)
        for place, system in enumerate(sheets.study.systems):
            values = vars(block) | vars(block.test) | vars(block.systems[system.id])
            values["study"] = sheets.name
            values["raters"] = "simulated" if statistics.simulated else "people"
            values["block"] = block.id
            values["system"] = system.id
            values["label"] = plain(system.label)
            values["printed"] = printed[place] if printed else None
            values["raters_used"] = statistics.used
            rows.append([csv_value(values[name]) for name in columns])
    return csv_text(rows)


def _number_line(kind: str, values: Iterable[Any], digits: int) -> Line:
    return text_line(kind, [number_text(value, digits) for value in values])
