"""Two styles of a table's frame: `full`, a block for each row
with every test, and `paper`, one line for each row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from recap.core.files import cell as csv_cell
from recap.core.files import csv_text
from recap.settings.metrics import server_names
from recap.settings.tables import RUN_COLUMNS, column_info, heading
from recap.statistics.comparison import UNITS
from recap.tables import notes
from recap.tables.frame import PRINTED, Frame, from_outside
from recap.tables.text import (
    NONE,
    Block,
    Cell,
    Line,
    TextTable,
    ended,
    footnote_marks,
    number_text,
    p_text,
    plain,
)

PRINTED_PART, OWN_PART = "Printed in the paper, not run here", "Run here"
_SHORT = {"METEOR": "M", "ROUGE-L": "R", "CIDEr": "C", "SPICE": "S"}


def _ours(cell: Mapping[str, Any], **beside: str) -> Cell:
    """Return the cell of a mean of ours."""
    digits = column_info(cell["metric"]).digits
    sd = "" if cell["sd"] is None else number_text(cell["sd"], digits)
    return Cell(
        number_text(cell["mean"], digits),
        sd,
        best=bool(cell["best"]),
        dagger=bool(cell["mark"]),
        **beside,
    )


def _printed(cell: Mapping[str, Any], sd: str = "") -> Cell:
    """Return the cell of a number of the paper, with the doubt about it."""
    number = number_text(cell["printed"], column_info(cell["metric"]).digits)
    return Cell(number, sd, note=cell["notes"].get("printed", ""))


def paper_table(frame: Frame) -> TextTable:
    """Return one line for each row: ours with its spread, and the printed number beside it.

    Rows of which only the paper's numbers are shown stand in a part of their own. At another scale
    than the print's they are left out.
    """
    settings = frame.table
    names = [(_short_name(column), heading(column)) for column in settings.columns]
    table = TextTable(plain(settings.title), plain(settings.short_scale), names, "paper")
    quoted = [_paper_line(row) for row in frame.rows if row["part"] in PRINTED]
    ours = [_paper_line(row) for row in frame.rows if row["part"] not in PRINTED]
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
    letters = {"B": "BLEU"} if any("BLEU-" in column for column in columns) else {}
    own = [column.rpartition(".")[2] if column in server_names() else column for column in columns]
    for name, letter in _SHORT.items():
        if name in own:
            letters[letter] = name
    return letters


def _short_name(column: str) -> str:
    """Return the name of a column as papers abbreviate it."""
    if column in RUN_COLUMNS:
        return heading(column)
    server, _, name = column.partition(".") if column in server_names() else ("", "", column)
    name = f"B-{name.removeprefix('BLEU-')}" if name.startswith("BLEU-") else _SHORT.get(name, name)
    return f"{server} {name}".strip()


def _paper_line(row: Mapping[str, Any]) -> Line:
    """Return the line of a row."""
    cells, printed, texts = row["cells"], row["part"] in PRINTED, []
    for cell in cells:
        quoted = _printed(cell)
        beside = "" if cell["printed"] is None else quoted.text
        texts.append(quoted if printed else _ours(cell, printed=beside, note=quoted.note))
    tag, source, note = ("printed", "printed", "") if printed else ("", "run", "")
    scorers = ", ".join(dict.fromkeys(plain(cell["source"]) for cell in cells if cell["source"]))
    if row["not_run"]:
        note = f"Own, not run: {ended(row['not_run'])}"
        tag, source = "own, not run", f"own, not run: {plain(row['not_run'])}"
    elif row["part"] == "outside":
        note = f"{notes.scored_here(row)}. {notes.NO_RUNS}"
        tag, source = from_outside(row), f"{from_outside(row)}: {plain(row['captions'])}"
    elif scorers:
        note = f"Scored by {scorers}."
        tag, source = f"scored by {scorers}", f"run, scored by {scorers}"
    return Line(
        row["label"],
        texts,
        (cells[0]["notes"].get("row", ""), row["note"], note),
        tag,
        source,
        printed,
    )


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
    return csv_text(map(csv_cell, record) for record in records)


def full_table(frame: Frame) -> TextTable:
    """Return a block for each row with a line for each kind of number:
    ours, printed, differences, and every test."""
    names = [(heading(column), heading(column)) for column in frame.table.columns]
    table = TextTable(plain(frame.table.title), plain(frame.table.scale), names)
    table.blocks = [_block(row, frame.statistics["family"]["units"]) for row in frame.rows]
    table.footnotes = footnote_marks(table.lines)
    table.legend = notes.legend(frame, beside=False)
    table.notes = list(notes.full_notes(frame))
    rows: dict[str, list[str]] = {}
    for row in [*frame.statistics["rows"], *frame.statistics.get("outside", [])]:
        for text in sorted(set(row["signatures"].values())):
            rows.setdefault(text, []).append(row["id"])
    table.signatures = (
        list(rows)
        if len(rows) == 1
        else [f"{text} ({', '.join(ids)})" for text, ids in rows.items()]
    )
    return table


def _block(row: Mapping[str, Any], units: Sequence[str]) -> Block:
    """Return the lines of a row that say anything."""
    cells, not_run = row["cells"], row["not_run"]
    lines = []
    if not_run:
        note = f"Own, not run: {ended(not_run)}"
        lines.append(Line("ours: not run", [Cell()] * len(cells), (note,)))
    elif row["part"] not in PRINTED:
        lines.append(_line_of_ours(row))
    printed = []
    for cell in cells:
        spread = cell["printed_sd"]
        printed.append(_printed(cell, "" if spread is None else f"{spread:g}"))
    compared = [Line("printed", printed, (cells[0]["notes"].get("row", ""),))]
    for key, kind in _kinds(row, units).items():
        texts = [Cell(_shown(cell, key), note=cell["notes"].get(key, "")) for cell in cells]
        compared.append(Line(kind, texts))
    lines += [line for line in compared if set(line.cells) != {Cell()}]
    return Block(_label(row), lines)


def _label(row: Mapping[str, Any]) -> str:
    """Return the label of a row with what it is."""
    if row["id"] == row["cells"][0]["baseline"]:
        return f"{row['label']} (baseline)"
    origins = {
        "quoted": " (printed, not run)",
        "not_run": " (own, not run)",
        "outside": f" ({from_outside(row)})",
    }
    return row["label"] + origins.get(row["part"], "")


def _kinds(row: Mapping[str, Any], units: Sequence[str]) -> dict[str, str]:
    """Return the numbers that a row may have beside means: key of a cell -> name of the line."""
    if row["not_run"]:
        return {"printed_p": "p, printed"}
    outside = row["part"] == "outside"
    kinds = {
        "difference_to_printed": "ours minus printed",
        "difference": "minus baseline" if outside else "ours minus baseline",
        "printed_p": "p, printed",
    }
    for unit in ["images"] if outside else units:
        kinds[f"{UNITS[unit]}_p_holm"] = f"p, {unit} (Holm)"
    return kinds


def _shown(cell: Mapping[str, Any], key: str) -> str:
    """Return a difference, a p or a number of seeds as text."""
    value, digits = cell[key], column_info(cell["metric"]).digits
    if key.startswith("difference"):
        return number_text(value, digits + (key == "difference"), signed=True)
    if key.endswith("_p_holm"):
        return p_text(value)
    return NONE if value is None else str(value)


def _line_of_ours(row: Mapping[str, Any]) -> Line:
    """Return the line of our means, with the number of runs where columns differ."""
    cells = row["cells"]
    texts = [_ours(cell, note=cell["notes"].get("mean", "")) for cell in cells]
    counts = {cell["n"] for cell in cells if cell["n"]}
    if len(counts) != 1:
        texts = [
            text if cell["mean"] is None else replace(text, text=f"{text.text} ({cell['n']})")
            for cell, text in zip(cells, texts, strict=True)
        ]
    sources = dict.fromkeys(cell["source"] for cell in cells if cell["source"])
    kind = ", ".join(["scored here" if row["part"] == "outside" else "ours", *sources])
    if row["part"] != "outside":
        kind += f" (n = {counts.pop()})" if len(counts) == 1 else " (n)"
    return Line(kind, texts, (row["note"],))
