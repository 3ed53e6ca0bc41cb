"""Two styles of a table's frame: `full`, a block for each row with every test, and `paper`, one line for each row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from recap.settings.metrics import server_names
from recap.settings.tables import RUN_COLUMNS, column_info, heading
from recap.tables import notes
from recap.tables.frame import OURS, PRINTED, Frame, from_outside
from recap.tables.text import Block, Cell, Line, TextTable, number_text, p_text, plain

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


def _numbers(cell: Mapping[str, Any], key: str, deviation: str) -> dict[str, Any]:
    """Return a number and its spread as text."""
    digits = column_info(cell["metric"]).digits
    spread = cell[deviation]
    shown = f"{spread:g}" if key == "printed" and spread is not None else number_text(spread, digits)
    return {"text": number_text(cell[key], digits), "sd": "" if spread is None else shown}


# ----------------------------------------------------------------------------------------------- one line a row


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
    texts = [_paper_cell(cell, table) for cell in cells]
    marks = [mark(row["row_doubt"]), mark(row["note"])]
    tag, source = ("printed", "printed") if printed else ("", RUN)
    scorers = ", ".join(dict.fromkeys(plain(cell["source"]) for cell in cells if cell["source"]))
    if row["not_run"]:
        marks.append(mark(f"Own, not run: {plain(row['not_run']).rstrip('.')}."))
        tag, source = "own, not run", f"own, not run: {plain(row['not_run'])}"
    elif row["part"] == "outside":
        marks.append(mark(f"{notes.scored_here(row)}. {notes.NO_RUNS}"))
        tag, source = from_outside(row), f"{from_outside(row)}: {plain(row['captions'])}"
    elif scorers:
        marks.append(mark(f"Scored by {scorers}."))
        tag, source = f"scored by {scorers}", f"{RUN}, scored by {scorers}"
    return Line(row["label"], texts, tuple(dict.fromkeys(filter(None, marks))), tag, source, printed)


def _paper_cell(cell: Mapping[str, Any], table: TextTable) -> Cell:
    note = table.footnotes.mark(cell["doubt"])
    if cell["part"] in PRINTED:
        return Cell(_numbers(cell, "printed", "printed_sd")["text"], note=note)
    beside = "" if cell["printed"] is None else _numbers(cell, "printed", "printed_sd")["text"]
    return Cell(**_numbers(cell, "mean", "sd"), printed=beside, best=cell["best"], dagger=bool(cell["mark"]), note=note)


def paper_records(table: TextTable) -> list[list[str]]:
    """Return the lines of the CSV: numbers as they are shown, with the name of each metric in full."""
    parts = ("", " sd", " mark", " printed")
    head = ["row", "source", "scale", *(f"{name}{part}" for _, name in table.columns for part in parts)]
    records = [[*head, *(["doubt"] if table.footnotes else [])]]
    for line in table.lines:
        record = [line.label, line.source, "" if line.printed else table.scale]
        for cell in line.cells:
            text = "" if cell.text == "--" else cell.text
            ours, beside = ("", text) if line.printed else (text, cell.printed)
            record += [ours, cell.sd, str(int(cell.dagger)) if ours else "", beside]
        marks = [*line.notes, *(cell.note for cell in line.cells if cell.note)]
        records.append(
            [*record, *([" ".join(table.footnotes[mark] for mark in dict.fromkeys(marks))] if table.footnotes else [])]
        )
    return records


# ----------------------------------------------------------------------------------------------- every test


def full_table(frame: Frame) -> TextTable:
    """Return a block for each row with a line for each kind of number: ours, printed, differences, and every test."""
    table = _text_table(frame, "full", frame.table.scale)
    table.blocks = [_block(cells, table, frame.statistics) for cells in frame.rows(*PRINTED, *OURS)]
    table.legend = notes.legend(frame, beside=False)
    table.notes = notes.full_notes(frame)
    table.signatures = _signatures(frame)
    return table


def _block(cells: Cells, table: TextTable, statistics: Mapping[str, Any]) -> Block:
    row, mark, columns = cells[0], table.footnotes.mark, len(cells)
    outside, printed = row["part"] == "outside", row["part"] in PRINTED
    origin = {"quoted": " (printed, not run)", "not_run": " (own, not run)", "outside": f" ({from_outside(row)})"}
    label = row["label"] + (" (baseline)" if row["id"] == row["baseline"] else origin.get(row["part"], ""))
    lines = []
    if row["not_run"]:
        reason = mark(f"Own, not run: {plain(row['not_run']).rstrip('.')}.")
        lines.append(Line("ours: not run", [Cell()] * columns, (reason,)))
    elif not printed:
        lines.append(_ours(cells, table))
    for kind, note, shown in _kinds(["images"] if outside else statistics["family"]["units"]):
        if row["not_run"] and kind not in ("printed", "p, printed"):
            continue
        texts = [Cell(shown(cell), note=mark(cell.get(note))) for cell in cells]
        if all(cell == Cell() for cell in texts):
            continue
        kind = "minus baseline" if outside and kind == "ours minus baseline" else kind
        if kind == "printed":
            texts = [
                replace(text, **_numbers(cell, "printed", "printed_sd"))
                for text, cell in zip(texts, cells, strict=True)
            ]
        lines.append(Line(kind, texts, tuple(filter(None, [mark(row["row_doubt"]) if kind == "printed" else ""]))))
    return Block(label, lines)


def _kinds(units: Sequence[str]) -> list[tuple[str, str, Callable[[Mapping[str, Any]], str]]]:
    """Return the kinds of lines: name, key of the footnote, and the text of a cell."""

    def number(key: str, more: int = 0) -> Callable[[Mapping[str, Any]], str]:
        return lambda cell: number_text(cell[key], column_info(cell["metric"]).digits + more, signed=True)

    def p(key: str) -> Callable[[Mapping[str, Any]], str]:
        return lambda cell: number_text(None, 0) if cell[key] is None else p_text(cell[key])

    def as_is(key: str) -> Callable[[Mapping[str, Any]], str]:
        return lambda cell: number_text(None, 0) if cell[key] is None else f"{cell[key]}"

    return [
        ("printed", "doubt", as_is("printed")),
        ("ours minus printed", "", number("difference_to_printed")),
        ("ours minus baseline", "no_difference", number("difference", 1)),
        ("p, printed", "p_fits", as_is("printed_p")),
        *((f"p, {unit} (Holm)", f"no_p_{unit}", p(f"p_{unit}")) for unit in units),
        (notes.SEEDS_LINE, "", as_is("seeds_for_printed")),
    ]


def _ours(cells: Cells, table: TextTable) -> Line:
    """Return the line of our means, with the number of runs where it is not the same in all columns."""
    row, mark = cells[0], table.footnotes.mark
    counts = {cell["n"] for cell in cells if cell["n"]}
    same = counts.pop() if len(counts) == 1 else None
    texts = []
    for cell in cells:
        text = Cell(
            **_numbers(cell, "mean", "sd"), best=cell["best"], dagger=bool(cell["mark"]), note=mark(cell["missing"])
        )
        several = same is None and cell["mean"] is not None
        texts.append(replace(text, text=f"{text.text} ({cell['n']})") if several else text)
    sources = dict.fromkeys(cell["source"] for cell in cells if cell["source"])
    kind = ", ".join(["scored here" if row["part"] == "outside" else "ours", *sources])
    if row["part"] != "outside":
        kind += " (n)" if same is None else f" (n = {same})"
    return Line(kind, texts, tuple(filter(None, [mark(row["note"])])))


def _signatures(frame: Frame) -> list[str]:
    """Return the signatures in use, each once; where there are several, with the rows that they belong to."""
    rows: dict[str, list[str]] = {}
    for row in [*frame.statistics["rows"], *frame.statistics.get("outside", [])]:
        for text in sorted(set(row["signatures"].values())):
            rows.setdefault(text, []).append(row["id"])
    return list(rows) if len(rows) == 1 else [f"{text} ({', '.join(ids)})" for text, ids in rows.items()]
