"""Two styles of a table's frame: `full`, a block for each row
with every test, and `paper`, one line for each row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from recap.core.files import csv_text, csv_value
from recap.settings.metrics import server_names
from recap.settings.tables import RUN_COLUMNS, heading
from recap.tables import notes
from recap.tables.frame import Frame, FrameCell, FrameRow, from_outside
from recap.tables.pairs import pairs_table
from recap.tables.text import (
    NONE,
    Block,
    Cell,
    Line,
    TextTable,
    columns_of,
    ended,
    footnote_marks,
    number_text,
    p_text,
    plain,
)

PRINTED_PART, OWN_PART = "Printed in the paper, not run here", "Run here"
_SHORT = {"METEOR": "M", "ROUGE-L": "R", "CIDEr": "C", "SPICE": "S"}


def _ours(cell: FrameCell, *, printed: str = "", note: str = "") -> Cell:
    """Return the cell of a mean of ours."""
    spread = cell.scaled(cell.result.sd)
    sd = "" if spread is None else number_text(spread, cell.digits)
    mean = number_text(cell.mean, cell.digits)
    return Cell(mean, sd, printed, best=cell.best, dagger=bool(cell.mark), note=note)


def _printed(cell: FrameCell, sd: str = "") -> Cell:
    """Return the cell of a number of the paper, with the doubt about it."""
    return Cell(number_text(cell.result.printed_percent, cell.digits), sd, note=cell.doubt)


def paper_table(frame: Frame) -> TextTable:
    """Return one line for each row: ours with its spread, and the printed number beside it.

    Rows of which only the paper's numbers are shown stand in a part of their own. At another scale
    than the print's they are left out.
    """
    settings = frame.table
    names = [(_short_name(column), heading(column)) for column in settings.columns]
    table = TextTable(plain(settings.title), plain(settings.short_scale), names, "paper")
    quoted = [_paper_line(row) for row in frame.rows if row.printed]
    ours = [_paper_line(row) for row in frame.rows if not row.printed]
    table.legend = notes.legend(frame, beside=True)
    if quoted and settings.short_scale:
        table.legend.append(
            f"Rows that the paper prints and that were not run ({len(quoted)}) are in the full "
            "table."
        )
        table.blocks = [Block("", ours)]
    elif quoted:
        table.blocks = [Block(PRINTED_PART, quoted), Block(OWN_PART, ours)]
    else:
        table.blocks = [Block("", ours)]
    table.footnotes = footnote_marks(table.lines)
    table.notes = [notes.short_note(frame, _abbreviations(settings.columns))]
    return table


def _abbreviations(columns: Sequence[str]) -> dict[str, str]:
    """Return letter -> name of the metrics whose columns are abbreviated."""
    names = [_scored_by(column)[1] for column in columns]
    letters = {"B": "BLEU"} if any("BLEU-" in name for name in names) else {}
    return letters | {letter: name for name, letter in _SHORT.items() if name in names}


def _short_name(column: str) -> str:
    """Return the name of a column as papers abbreviate it."""
    if column in RUN_COLUMNS:
        return heading(column)
    server, name = _scored_by(column)
    short = _SHORT.get(name, name).replace("BLEU-", "B-")
    return f"{server} {short}".strip()


def _scored_by(column: str) -> tuple[str, str]:
    """Return the part of COCO's server that scores a column, "" for recap, and the metric."""
    if column not in server_names():
        return "", column
    server, _, name = column.partition(".")
    return server, name


def _paper_line(row: FrameRow) -> Line:
    """Return the line of a row."""
    texts = []
    for cell in row.cells:
        printed = _printed(cell)
        if row.printed:
            texts.append(printed)
        else:
            beside = "" if cell.result.printed_percent is None else printed.text
            texts.append(_ours(cell, printed=beside, note=printed.note))
    scorers = ", ".join(map(plain, _sources(row)))
    tag = "printed" if row.printed else ""
    source = "printed" if row.printed else "run"
    note = ""
    if row.not_run:
        note = f"Own, not run: {ended(row.not_run)}"
        tag = "own, not run"
        source = f"own, not run: {plain(row.not_run)}"
    elif row.origin == "outside":
        note = f"{notes.scored_here(row.result)}. {notes.NO_RUNS}"
        tag = from_outside(row.result)
        source = f"{tag}: {plain(row.result.captions or '')}"
    elif scorers:
        note = f"Scored by {scorers}."
        tag = f"scored by {scorers}"
        source = f"run, scored by {scorers}"
    return Line(row.label, texts, (*row.notes, note), tag, source, row.printed)


def _sources(row: FrameRow) -> list[str]:
    """Return who gave scores of a row, where recap did not."""
    return list(dict.fromkeys(cell.result.source for cell in row.cells if cell.result.source))


def paper_csv(table: TextTable) -> str:
    """Return the numbers as shown: one line per row, with the full name of each metric."""
    head = ["row", "source", "scale"]
    for _, name in table.columns:
        head += [name, f"{name} sd", f"{name} mark", f"{name} printed"]
    if table.footnotes:
        head.append("doubt")
    records = [head]
    for line in table.lines:
        record = [line.label, line.source, "" if line.printed else table.scale]
        for cell in line.cells:
            text = "" if cell.text == NONE else cell.text
            ours, beside = ("", text) if line.printed else (text, cell.printed)
            record += [ours, cell.sd, str(int(cell.dagger)) if ours else "", beside]
        if table.footnotes:
            doubts = dict.fromkeys([*line.notes, *(cell.note for cell in line.cells)])
            record.append(" ".join(filter(None, doubts)))
        records.append(record)
    return csv_text(map(csv_value, record) for record in records)


def full_table(frame: Frame) -> TextTable:
    """Return a block for each row with a line for each kind of number:
    ours, printed, differences, and every test."""
    names = columns_of(map(heading, frame.table.columns))
    table = TextTable(plain(frame.table.title), plain(frame.table.scale), names)
    table.blocks = [_block(row, frame) for row in frame.rows]
    table.footnotes = footnote_marks(table.lines)
    table.legend = notes.legend(frame, beside=False)
    table.notes = list(notes.full_notes(frame))
    rows: dict[str, list[str]] = {}
    for row in (*frame.statistics.rows, *frame.statistics.outside):
        for text in sorted(set(row.signatures.values())):
            rows.setdefault(text, []).append(row.id)
    if len(rows) == 1:
        table.signatures = list(rows)
    else:
        table.signatures = [f"{text} ({', '.join(ids)})" for text, ids in rows.items()]
    if frame.statistics.pairs:
        table.more = pairs_table(frame.statistics)
    return table


def _block(row: FrameRow, frame: Frame) -> Block:
    """Return the lines of a row that say anything."""
    cells = row.cells
    lines = []
    if row.not_run:
        note = f"Own, not run: {ended(row.not_run)}"
        lines.append(Line("ours: not run", [Cell()] * len(cells), (note,)))
    elif not row.printed:
        lines.append(_line_of_ours(row))
    printed = []
    for cell in cells:
        spread = cell.result.printed_sd_percent
        printed.append(_printed(cell, "" if spread is None else f"{spread:g}"))
    compared = [Line("printed", printed, row.notes[:1]), *_compared(row, frame)]
    lines += [line for line in compared if set(line.cells) != {Cell()}]
    baseline = not row.printed and row.result.id == frame.statistics.baseline
    origins = {
        "quoted": " (printed, not run)",
        "not_run": " (own, not run)",
        "outside": f" ({from_outside(row.result)})",
    }
    origin = " (baseline)" if baseline else origins.get(row.origin, "")
    return Block(f"{row.label}{origin}", lines)


def _compared(row: FrameRow, frame: Frame) -> list[Line]:
    """Return the differences of a row and their p, a line of a cell per column each."""
    to_print = []
    to_baseline = []
    printed_p = []
    for cell in row.cells:
        more = number_text(cell.result.difference_to_printed_percent, cell.digits, signed=True)
        to_print.append(Cell(more))
        more = number_text(cell.difference, cell.digits + 1, signed=True)
        note = cell.comparison_reason if cell.difference is None else ""
        to_baseline.append(Cell(more, note=note))
        p = NONE if cell.printed_p is None else str(cell.printed_p)
        printed_p.append(Cell(p, note=cell.printed_p_note))
    if row.not_run:
        return [Line("p, printed", printed_p)]
    outside = row.origin == "outside"
    lines = [
        Line("ours minus printed", to_print),
        Line("minus baseline" if outside else "ours minus baseline", to_baseline),
        Line("p, printed", printed_p),
    ]
    for unit in ["images"] if outside else frame.statistics.family.units:
        cells = []
        for cell in row.cells:
            note = cell.test_reason(unit) if frame.statistics.family.made else ""
            cells.append(Cell(p_text(cell.p_holm(unit)), note=note))
        lines.append(Line(f"p, {unit} (Holm)", cells))
    return lines


def _line_of_ours(row: FrameRow) -> Line:
    """Return the line of our means, with the number of runs where columns differ."""
    counts = {cell.result.n for cell in row.cells if cell.result.n}
    texts = []
    for cell in row.cells:
        text = _ours(cell, note=cell.mean_reason)
        if len(counts) != 1 and cell.mean is not None:
            text = replace(text, text=f"{text.text} ({cell.result.n})")
        texts.append(text)
    kind = ", ".join(["scored here" if row.origin == "outside" else "ours", *_sources(row)])
    if row.origin != "outside":
        kind += f" (n = {counts.pop()})" if len(counts) == 1 else " (n)"
    return Line(kind, texts, row.notes[1:])
