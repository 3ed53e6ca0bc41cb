"""Two styles of a table's frame: `full`, a block for each row with every test, and `paper`, one line for each row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from recap.settings.metrics import server_names
from recap.settings.tables import RUN_COLUMNS, column_info, heading
from recap.tables import notes
from recap.tables.frame import OURS, PRINTED, Frame, from_outside
from recap.tables.text import NONE, Block, Cell, Line, TextTable, ended, number_text, p_text, plain

Cells = Sequence[Mapping[str, Any]]  # of one row of the frame

RUN = "run"
PRINTED_PART, OWN_PART = "Printed in the paper, not run here", "Run here"
_SHORT = {"METEOR": "M", "ROUGE-L": "R", "CIDEr": "C", "SPICE": "S"}


def column_name(column: str, style: str) -> str:
    """Return the name of a column: in the style `paper` as papers abbreviate it."""
    if column in RUN_COLUMNS or style == "full":
        return heading(column)
    server, _, name = column.partition(".") if column in server_names() else ("", "", column)
    name = f"B-{name.removeprefix('BLEU-')}" if name.startswith("BLEU-") else _SHORT.get(name, name)
    return f"{server} {name}".strip()


def _text_table(frame: Frame, style: str, scale: str) -> TextTable:
    names = [(column_name(column, style), heading(column)) for column in frame.table.columns]
    return TextTable(plain(frame.table.title), plain(scale), names, style)


def _ours(cell: Mapping[str, Any], **beside: str) -> Cell:
    """Return the cell of a mean of ours."""
    digits = column_info(cell["metric"]).digits
    sd = "" if cell["sd"] is None else number_text(cell["sd"], digits)
    return Cell(number_text(cell["mean"], digits), sd, best=cell["best"], dagger=bool(cell["mark"]), **beside)


def _printed(cell: Mapping[str, Any]) -> str:
    """Return the number of the paper as text."""
    return number_text(cell["printed"], column_info(cell["metric"]).digits)


def paper_table(frame: Frame) -> TextTable:
    """Return one line for each row: ours with its spread, and the printed number beside it.

    Rows of which only the paper's numbers are shown stand in a part of their own. At another scale than the print's
    they are left out, unless the table sets `quoted_at_scales`.
    """
    table = _text_table(frame, "paper", frame.table.short_scale)
    shown = not frame.table.short_scale or frame.table.quoted_at_scales
    printed = [_paper_line(cells, table) for cells in frame.rows(*(PRINTED if shown else ()))]
    ours = [_paper_line(cells, table) for cells in frame.rows(*OURS)]
    table.blocks = [Block(PRINTED_PART, printed), Block(OWN_PART, ours)] if printed else [Block("", ours)]
    table.legend = notes.legend(frame, beside=True)
    left_out = 0 if shown else sum(1 for _ in frame.rows(*PRINTED))
    if left_out:
        table.legend.append(f"Rows that the paper prints and that were not run ({left_out}) are in the full table.")
    names = {"B": "BLEU"} if any("BLEU-" in column for column in frame.table.columns) else {}
    short = {column.rpartition(".")[2] if column in server_names() else column for column in frame.table.columns}
    names |= {letter: column for column, letter in _SHORT.items() if column in short}
    table.notes = [notes.short_note(frame, names)]
    return table


def _paper_line(cells: Cells, table: TextTable) -> Line:
    """Return the line of a row."""
    row, mark = cells[0], table.footnotes.mark
    printed = row["part"] in PRINTED
    texts = []
    for cell in cells:
        note, number = mark(cell["doubt"]), _printed(cell)
        beside = "" if cell["printed"] is None else number
        texts.append(Cell(number, note=note) if printed else _ours(cell, printed=beside, note=note))
    marks = [mark(row["row_doubt"]), mark(row["note"])]
    tag, source = ("printed", "printed") if printed else ("", RUN)
    scorers = ", ".join(dict.fromkeys(plain(cell["source"]) for cell in cells if cell["source"]))
    if row["not_run"]:
        marks.append(mark(f"Own, not run: {ended(row['not_run'])}"))
        tag, source = "own, not run", f"own, not run: {plain(row['not_run'])}"
    elif row["part"] == "outside":
        marks.append(mark(f"{notes.scored_here(row)}. {notes.NO_RUNS}"))
        tag, source = from_outside(row), f"{from_outside(row)}: {plain(row['captions'])}"
    elif scorers:
        marks.append(mark(f"Scored by {scorers}."))
        tag, source = f"scored by {scorers}", f"{RUN}, scored by {scorers}"
    return Line(row["label"], texts, tuple(dict.fromkeys(filter(None, marks))), tag, source, printed)


def paper_records(table: TextTable) -> list[list[str]]:
    """Return the lines of the CSV: numbers as they are shown, with the name of each metric in full."""
    footnotes = {mark: text for text, mark in table.footnotes.items()}
    head = ["row", "source", "scale"]
    head += [f"{name}{part}" for _, name in table.columns for part in ("", " sd", " mark", " printed")]
    records = [head + ["doubt"] * bool(footnotes)]
    for line in table.lines:
        record = [line.label, line.source, "" if line.printed else table.scale]
        for cell in line.cells:
            text = "" if cell.text == NONE else cell.text
            ours, beside = ("", text) if line.printed else (text, cell.printed)
            record += [ours, cell.sd, str(int(cell.dagger)) if ours else "", beside]
        marks = dict.fromkeys([*line.notes, *(cell.note for cell in line.cells if cell.note)])
        records.append(record + [" ".join(map(footnotes.__getitem__, marks))] * bool(footnotes))
    return records


def full_table(frame: Frame) -> TextTable:
    """Return a block for each row with a line for each kind of number: ours, printed, differences, and every test."""
    table = _text_table(frame, "full", frame.table.scale)
    units = frame.statistics["family"]["units"]
    table.blocks = [_block(cells, table, units) for cells in frame.rows(*PRINTED, *OURS)]
    table.legend = notes.legend(frame, beside=False)
    table.notes = list(notes.full_notes(frame))
    table.signatures = _signatures(frame)
    return table


def _block(cells: Cells, table: TextTable, units: Sequence[str]) -> Block:
    row, mark, lines = cells[0], table.footnotes.mark, []
    outside = row["part"] == "outside"
    origin = {"quoted": " (printed, not run)", "not_run": " (own, not run)", "outside": f" ({from_outside(row)})"}
    label = row["label"] + (" (baseline)" if row["id"] == row["baseline"] else origin.get(row["part"], ""))
    if row["not_run"]:
        lines.append(Line("ours: not run", [Cell()] * len(cells), (mark(f"Own, not run: {ended(row['not_run'])}"),)))
    elif row["part"] not in PRINTED:
        lines.append(_line_of_ours(cells, table))
    spreads = ["" if cell["printed_sd"] is None else f"{cell['printed_sd']:g}" for cell in cells]
    texts = [Cell(_printed(cell), sd, note=mark(cell["doubt"])) for cell, sd in zip(cells, spreads, strict=True)]
    if any(text != Cell() for text in texts):
        lines.append(Line("printed", texts, tuple(filter(None, [mark(row["row_doubt"])]))))
    for kind, key, note, shown in _kinds(["images"] if outside else units):
        if row["not_run"] and key != "printed_p":
            continue
        values = [NONE if cell[key] is None else shown(cell[key], column_info(cell["metric"]).digits) for cell in cells]
        texts = [Cell(value, note=mark(cell.get(note))) for cell, value in zip(cells, values, strict=True)]
        if any(text != Cell() for text in texts):
            lines.append(Line("minus baseline" if outside and key == "difference" else kind, texts))
    return Block(label, lines)


def _kinds(units: Sequence[str]) -> list[tuple[str, str, str, Callable[[Any, int], str]]]:
    """Return the kinds of lines: name, key of the value, key of its footnote, and a value of so many digits as text."""
    signed = partial(number_text, signed=True)
    return [
        ("ours minus printed", "difference_to_printed", "", signed),
        ("ours minus baseline", "difference", "no_difference", lambda value, digits: signed(value, digits + 1)),
        ("p, printed", "printed_p", "p_fits", lambda p, _: str(p)),
        *((f"p, {unit} (Holm)", f"p_{unit}", f"no_p_{unit}", lambda p, _: p_text(p)) for unit in units),
        (notes.SEEDS_LINE, "seeds_for_printed", "", lambda seeds, _: str(seeds)),
    ]


def _line_of_ours(cells: Cells, table: TextTable) -> Line:
    """Return the line of our means, with the number of runs where it is not the same in all columns."""
    row, mark = cells[0], table.footnotes.mark
    counts = {cell["n"] for cell in cells if cell["n"]}
    texts = []
    for cell in cells:
        text = _ours(cell, note=mark(cell["missing"]))
        several = len(counts) != 1 and cell["mean"] is not None
        texts.append(replace(text, text=f"{text.text} ({cell['n']})") if several else text)
    sources = dict.fromkeys(cell["source"] for cell in cells if cell["source"])
    kind = ", ".join(["scored here" if row["part"] == "outside" else "ours", *sources])
    if row["part"] != "outside":
        kind += f" (n = {counts.pop()})" if len(counts) == 1 else " (n)"
    return Line(kind, texts, tuple(filter(None, [mark(row["note"])])))


def _signatures(frame: Frame) -> list[str]:
    """Return the signatures in use, each once; where there are several, with the rows that they belong to."""
    rows: dict[str, list[str]] = {}
    for row in [*frame.statistics["rows"], *frame.statistics.get("outside", [])]:
        for text in sorted(set(row["signatures"].values())):
            rows.setdefault(text, []).append(row["id"])
    return list(rows) if len(rows) == 1 else [f"{text} ({', '.join(ids)})" for text, ids in rows.items()]
