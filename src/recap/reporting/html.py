"""A result table as an HTML fragment for a browser or a report, without external files."""

from __future__ import annotations

from html import escape

from recap.reporting.content import Block, Content
from recap.reporting.markdown import footnotes

_STYLE = """
.recap-table { font: 13px/1.45 system-ui, sans-serif; max-width: 70rem; overflow-x: auto; }
.recap-table table { border-collapse: collapse; margin: 1em 0; }
.recap-table th, .recap-table td { padding: 0.2em 0.4em; text-align: right; vertical-align: bottom; }
.recap-table td { white-space: nowrap; }
.recap-table th[scope=row] { font-weight: normal; padding-left: 1em; text-align: left; }
.recap-table thead th { border-bottom: 2px solid #444; }
.recap-table th[scope=rowgroup] { border-top: 1px solid #bbb; text-align: left; }
.recap-table .notes { color: #444; font-size: 12px; overflow-wrap: anywhere; }
"""


def html_table(content: Content) -> str:
    """Return the table with its scale, footnotes and notes; every text in it is escaped."""
    lines = [
        '<meta charset="utf-8">',
        '<div class="recap-table">',
        f"<style>{_STYLE}</style>",
        f"<h2>{escape(content.title)}</h2>",
        *([f"<p><strong>{escape(content.scale)}</strong></p>"] if content.scale else []),
        table_element(content),
        '<ul class="notes">',
        *(f"<li>{escape(note)}</li>" for note in notes_below(content)),
        "</ul>\n</div>",
    ]
    return "\n".join(lines) + "\n"


def table_element(content: Content) -> str:
    """Return the table alone; every text in it is escaped."""
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in content.columns)
    lines = [
        f"<table>\n<thead><tr><td></td>{head}</tr></thead>",
        *(_block(block, len(content.columns)) for block in content.blocks),
        "</table>",
    ]
    return "\n".join(lines)


def notes_below(content: Content) -> list[str]:
    """Return the footnotes, notes and signatures below a table, not escaped."""
    return [*footnotes(content.footnotes), *content.notes, *(f"Signature: {text}" for text in content.signatures)]


def _block(block: Block, columns: int) -> str:
    """Return all lines of one row of the table."""
    label = f'<tr><th scope="rowgroup" colspan="{columns + 1}">{escape(block.label)}</th></tr>'
    lines = []
    for line in block.lines:
        texts = [f"<strong>{escape(each.text)}</strong>" if each.strong else escape(each.text) for each in line.entries]
        cells = "".join(f"<td>{text}{_mark(each.mark)}</td>" for text, each in zip(texts, line.entries, strict=True))
        lines.append(f'<tr><th scope="row">{escape(line.kind)}{_mark(line.mark)}</th>{cells}</tr>')
    return "\n".join(["<tbody>", label, *lines, "</tbody>"])


def _mark(mark: str) -> str:
    return f"<sup>{escape(mark)}</sup>" if mark else ""
