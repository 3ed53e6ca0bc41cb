"""Result tables as Markdown with aligned columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from recap.reporting.content import Content, Entry


def markdown_table(content: Content) -> str:
    """Return the table with its scale, footnotes and notes."""
    rows: list[list[str]] = [["", *content.columns]]
    for block in content.blocks:
        rows.append([f"**{escape_cell(block.label)}**", *[""] * len(content.columns)])
        rows.extend([f"  {line.kind}{marked(line.mark)}", *map(_entry, line.entries)] for line in block.lines)
    notes = footnotes(content.footnotes) + content.notes
    notes += [f"Signature: `{text}`" for text in content.signatures]
    return page(content.title, content.scale, rows, notes)


def page(title: str, scale: str, rows: Sequence[Sequence[str]], notes: Sequence[str]) -> str:
    """Return a heading, the scale if there is one, a table (its first row is the head) and notes below it."""
    widths = [max(3, *(len(row[index]) for row in rows)) for index in range(len(rows[0]))]
    rule = "|".join(["", "-" * (widths[0] + 2), *("-" * (width + 1) + ":" for width in widths[1:]), ""])
    lines = [_padded(rows[0], widths), rule, *(_padded(row, widths) for row in rows[1:])]
    scale_lines = [f"**{escape_cell(scale)}**", ""] if scale else []
    head = [f"# {escape_cell(title)}", "", *scale_lines]
    return "\n".join([*head, *lines, "", *(f"- {_no_element(note)}" for note in notes)]) + "\n"


def escape_cell(text: str) -> str:
    """Return text with the characters escaped that end a cell or start HTML."""
    return _no_element(text.replace("\\", "\\\\").replace("|", "\\|"))


def _padded(row: Sequence[str], widths: Sequence[int]) -> str:
    """Return one line of the table: first column to the left, numbers to the right."""
    cells = [row[0].ljust(widths[0]), *(text.rjust(width) for text, width in zip(row[1:], widths[1:], strict=True))]
    return "| " + " | ".join(cells) + " |"


def _no_element(text: str) -> str:
    """Return text in which nothing starts an element of HTML, which Markdown may hold."""
    return text.replace("<", "&lt;")


def _entry(entry: Entry) -> str:
    """Return one cell of the table."""
    text = f"**{entry.text}**" if entry.strong else entry.text
    return text + marked(entry.mark)


def marked(mark: str) -> str:
    """Return the mark of a footnote, or nothing."""
    return f" [{mark}]" if mark else ""


def footnotes(texts: Mapping[str, str]) -> list[str]:
    """Return the footnotes below a table, each behind its mark."""
    return [f"[{mark}] {text}" for mark, text in texts.items()]
