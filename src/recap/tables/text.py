"""What a table says as text, the same for every format: cells, lines, blocks and footnotes.

And text on one line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, count, product
from string import ascii_lowercase
from typing import Any

NONE = "--"
EMPTY = "(empty caption)"


def plain(text: str) -> str:
    """Return text on one line without control characters (captions and labels come from files)."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def ended(text: str) -> str:
    """Return text on one line with one full stop at its end."""
    return f"{plain(text).rstrip('.')}."


def p_text(p: float | None) -> str:
    """Return a p of ours, or two dashes."""
    if p is None:
        return NONE
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def number_text(value: float | None, digits: int, *, signed: bool = False) -> str:
    """Return a number as text, or two dashes; what rounds to zero has no minus."""
    if value is None:
        return NONE
    rounded = round(value, digits) + 0.0
    return f"{rounded:+.{digits}f}" if signed else f"{rounded:.{digits}f}"


def interval_text(
    low: float | None, high: float | None, digits: int, *, scale: float = 1, signed: bool = False
) -> str:
    """Return an interval times a scale as text, or two dashes."""
    if low is None or high is None:
        return NONE
    ends = [number_text(scale * end, digits, signed=signed) for end in (low, high)]
    return " to ".join(ends)


def columns_of(names: Iterable[str]) -> list[tuple[str, str]]:
    """Return columns whose short names are the full ones."""
    return [(name, name) for name in names]


@dataclass(frozen=True)
class Cell:
    """One cell: a number with its spread, its marks and the printed number."""

    text: str = NONE
    sd: str = ""
    printed: str = ""  #: the number of the paper, gray
    best: bool = False  #: bold: best mean of its column
    dagger: bool = False  #: differs from the baseline
    note: str = ""  #: text of a footnote


@dataclass(frozen=True)
class Line:
    """One line: a cell per column, footnotes, and where its numbers are from."""

    label: str
    cells: Sequence[Cell]
    notes: tuple[str, ...] = ()
    tag: str = ""
    source: str = ""  #: as `tag`, in full, for a CSV
    printed: bool = False  #: the paper's numbers alone


def text_line(label: str, values: Iterable[Any]) -> Line:
    """Return a line whose cells are values as text."""
    return Line(label, [Cell(str(value)) for value in values])


def footnote_marks(lines: Iterable[Line]) -> dict[str, str]:
    """Return text of a footnote -> its mark, in the order of lines, those of cells first."""
    texts: list[str] = []
    for line in lines:
        texts += [cell.note for cell in line.cells]
        texts += line.notes
    return dict(zip(dict.fromkeys(filter(None, texts)), _letters(), strict=False))


def _letters() -> Iterator[str]:
    """Yield a, b, ..., z, aa, ab, ..."""
    for length in count(1):
        for letters in product(ascii_lowercase, repeat=length):
            yield "".join(letters)


@dataclass(frozen=True)
class Block:
    """Lines that belong together; the label may be empty."""

    label: str
    lines: list[Line]


@dataclass
class TextTable:
    """A whole table; ``style`` is `paper` (one line a row) or `full` (a block a row)."""

    title: str
    scale: str  #: what the numbers of ours were made of; empty: the paper's own scale
    columns: list[tuple[str, str]]  #: short and full name
    style: str = "full"
    blocks: list[Block] = field(default_factory=list)
    legend: list[str] = field(default_factory=list)  #: at the head: what marks mean, and the scale
    footnotes: dict[str, str] = field(default_factory=dict)  #: text -> mark
    notes: list[str] = field(default_factory=list)
    signatures: list[str] = field(default_factory=list)
    more: TextTable | None = None  #: behind a disclosure, with the notes: what is behind the lines
    first: TextTable | None = None  #: the table that lists the footnotes, of one that is its `more`

    @property
    def lines(self) -> list[Line]:
        """All lines of all blocks."""
        return list(chain.from_iterable(block.lines for block in self.blocks))

    def marks(self, *notes: str) -> str:
        """Return the marks of footnotes; no text has no mark."""
        return ",".join((self.first or self).footnotes[note] for note in notes if note)

    @property
    def sentences(self) -> list[str]:
        """Footnotes behind their marks, then notes."""
        return [*(f"[{mark}] {text}" for text, mark in self.footnotes.items()), *self.notes]
