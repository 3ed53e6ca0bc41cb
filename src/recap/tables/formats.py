"""A table as LaTeX (booktabs), Markdown, HTML and CSV, by templates that compute nothing."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from html import escape
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recap.core.errors import counted
from recap.core.files import write_text
from recap.core.log import log
from recap.settings import Table
from recap.statistics.results import TableResult
from recap.tables.frame import table_frame
from recap.tables.styles import full_table, paper_csv, paper_table
from recap.tables.text import Block, TextTable, plain

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup


def write_table(*, name: str, table: Table, statistics: TableResult, out: Path) -> list[Path]:
    """Write ``<name>.{tex,csv,html,md}`` and ``<name>.paper.{tex,csv,html,md}``;
    equal statistics give equal bytes.

    ``statistics`` is what :func:`recap.statistics.compare.compare_table` made.
    """
    frame = table_frame(table, statistics)
    paper = paper_table(frame)
    paths = write_formats(out / name, full_table(frame), frame.csv(), name=name)
    paths += write_formats(out / f"{name}.paper", paper, paper_csv(paper), name=name)
    shape = f"{counted(len(table.rows), 'row')}, {counted(len(table.columns), 'column')}"
    log.info(f"table {name}: {shape} -> {out / name}.md")
    return paths


def write_formats(begin: Path, table: TextTable, csv: str, *, name: str) -> list[Path]:
    """Write a table as ``<begin>.tex``, ``.csv``, ``.html`` and ``.md``, and return the paths."""
    # a fragment without other files
    html = filled("table.html.j2", table=table)
    texts = {"tex": latex_table(table, name), "csv": csv, "html": html, "md": markdown_table(table)}
    paths = {begin.with_name(f"{begin.name}.{ending}"): text for ending, text in texts.items()}
    for path, text in paths.items():
        write_text(path, text)
    return list(paths)


def markdown_table(table: TextTable, level: int = 1) -> str:
    """Return a table as Markdown with aligned columns below a heading of a level."""
    text = filled("table.md.j2", table=table, level=level)
    return re.sub(r"(?:^\|.*\n)+", lambda lines: _aligned(lines[0]), text, flags=re.MULTILINE)


def latex_table(table: TextTable, name: str) -> str:
    """Return a table as LaTeX: in the style `paper` in a column of two if it has few numbers."""
    layouts = [_latex_layout(each) for each in (table, table.more) if each]
    label = re.sub(r"[\W_]", "-", name)
    if table.style == "paper":
        label += "-paper"
    return filled("table.tex.j2", layouts=layouts, name=name, label=label)


def filled(template: str, package: str = "recap.tables", /, **shown: Any) -> str:
    """Return a template of a package; whatever it shows is escaped for the format it is in."""
    ending = template.removesuffix(".j2").rpartition(".")[2]
    return _environment(ending, package).get_template(template).render(shown)


@cache
def _environment(ending: str, package: str) -> Environment:
    """Return the templates of a format: those of tables, and of a package."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    escapes: dict[str, Callable[[str], str]] = {
        "tex": latex_text,
        "md": markdown_text,
        "html": escape,
    }
    escaped = escapes[ending]
    block, value = (("<%", "%>"), ("<<", ">>")) if ending == "tex" else (("{%", "%}"), ("{{", "}}"))
    templates = Environment(
        loader=ChoiceLoader([PackageLoader("recap.tables"), PackageLoader(package)]),
        autoescape=True,  # so that what a macro returns is not escaped again
        finalize=lambda shown: shown if isinstance(shown, Markup) else Markup(escaped(str(shown))),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        block_start_string=block[0],
        block_end_string=block[1],
        variable_start_string=value[0],
        variable_end_string=value[1],
    )
    templates.globals["markup"] = Markup
    templates.filters["breakable"] = _breakable
    return templates


def markdown_text(text: str) -> str:
    """Return text with the characters escaped that end a cell of a table or start HTML."""
    escaped = text.replace("\\", "\\\\").replace("|", "\\|")
    return re.sub("<(?=[A-Za-z/!?])", "&lt;", escaped)  # "<0.001" is text as it is


def _aligned(lines: str) -> str:
    """Return a table's lines in columns: the first to the left, numbers to the right."""
    rows = []
    for line in lines.splitlines():
        rows.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    widths = [max(3, *map(len, column)) for column in zip(*rows, strict=True)]
    padded = [[row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])] for row in rows]
    lines_out = [f"| {' | '.join(row)} |\n" for row in padded]
    lines_out[1] = "|".join(
        ["", "-" * (widths[0] + 2), *("-" * (width + 1) + ":" for width in widths[1:]), "\n"]
    )
    return "".join(lines_out)


_SYMBOLS = (
    "±pm ×times →rightarrow ↑uparrow ↓downarrow ≤leq ≥geq ≈approx ΔDelta αalpha βbeta λlambda"
)
_PUNCTUATION = "–—‘’“”…•"
_T1 = "«»ÐðÞþĐđŊŋĄąĘęĮįŲų"  # what no font of pdfLaTeX has but in the encoding T1
_LACKING = "ĦħĸĿŀŉŦŧſ"  # Latin letters that no font of pdfLaTeX has
_SPECIAL = {
    **dict(zip(_PUNCTUATION, _PUNCTUATION, strict=True)),
    **{char: rf"{{\fontencoding{{T1}}\selectfont {char}}}" for char in _T1},
    **{char: rf"\{char}" for char in "{}$&#%_"},
    "[": "{[}",  # after the end of a line it and a star would be arguments
    "*": "{*}",
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    '"': "''",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "†": r"$^\dagger$",
    **{pair[0]: rf"$\{pair[1:]}$" for pair in _SYMBOLS.split()},
}
# Combining characters, each with its accent, which every encoding has.
_MARKS = (
    "\u0300` \u0301' \u0302^ \u0303~ \u0304= \u0306u \u0307. \u0308\" \u030ar \u030bH \u030cv "
    "\u0323d \u0327c"
)
_ACCENTS = {pair[0]: pair[1] for pair in _MARKS.split()}

_LONG = 60  # characters of a label; a longer one is set in several lines
# Lines of one float of a long table, with caption and notes: fewer than a page of two columns.
_ROWS = 50
_CHARACTERS = 100  # of a line of a caption or note


def latex_text(text: str) -> str:
    """Return text as LaTeX that sets with any font.

    A letter that it lacks is `{[}U+0127]`, a leading minus is one.
    """
    body = "".join(map(_latex_char, unicodedata.normalize("NFC", plain(text))))
    return re.sub(r"^-(?=\d)", "$-$", body)


def _latex_char(char: str) -> str:
    if char in _SPECIAL:
        return _SPECIAL[char]
    if char <= "\u017f" and char not in _LACKING:
        return char
    decomposed = unicodedata.normalize("NFKD", char)
    base = decomposed[0]
    accents = decomposed[1:]
    if not (base.isascii() and _ACCENTS.keys() >= set(accents)):
        return f"{{[}}U+{ord(char):04X}]"
    return (
        "".join(rf"\{_ACCENTS[accent]}{{" for accent in reversed(accents))
        + latex_text(base)
        + "}" * len(accents)
    )


@dataclass(frozen=True)
class _Layout:
    """What the template of LaTeX needs beside a table."""

    table: TextTable
    environment: str  #: `table`, or `table*` for both columns of a page
    gap: int  #: between columns, in points
    beside: bool  #: whether numbers of cells have a second one beside them
    printed: bool  #: whether printed numbers do
    wide_labels: bool
    floats: list[list[Block | str]]


def _latex_layout(table: TextTable) -> _Layout:
    cells = list(chain.from_iterable(line.cells for line in table.lines))
    printed = any(cell.printed for cell in cells)
    numbers = len(table.columns) * (1 + printed)  # in a line, without spreads
    return _Layout(
        table=table,
        environment="table" if table.style == "paper" and numbers <= 5 else "table*",
        gap=4 if numbers <= 12 else 2,
        beside=printed or any(cell.sd or cell.dagger or cell.note for cell in cells),
        printed=printed,
        wide_labels=max(len(line.label) for line in table.lines) > _LONG,
        floats=_floats(table),
    )


def _floats(table: TextTable) -> list[list[Block | str]]:
    """Return blocks and notes of each float: one that is taller than a page would lose its end."""
    parts: list[tuple[Block | str, int]] = []
    for block in table.blocks:
        rows = 1 if block.label else 0
        for line in block.lines:
            rows += 1 + len(line.label) // _LONG
        parts.append((block, rows))
    for text in (*table.sentences, *(f"Signature: {text}" for text in table.signatures)):
        parts.append((text, 1 + len(text) // _CHARACTERS))
    caption = 1 + len(" ".join([table.title, table.scale, *table.legend])) // _CHARACTERS
    floats: list[list[Block | str]] = [[]]
    used = caption
    for part, rows in parts:
        if floats[-1] and used + rows > _ROWS:
            floats.append([])
            used = 1
        floats[-1].append(part)
        used += rows
    return floats


def _breakable(text: str) -> Markup:
    """Return a signature as LaTeX, whose line may end after each of its fields."""
    from markupsafe import Markup

    return Markup(latex_text(text).replace(r"\textbar{}", r"\textbar{}\allowbreak "))
