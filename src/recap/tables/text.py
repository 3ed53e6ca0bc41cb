"""What a table says as text, the same for every format: cells, lines, blocks and footnotes; and text on one line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

NONE = "--"


def plain(text: str) -> str:
    """Return text on one line without control characters (captions and labels come from files)."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def ended(text: str) -> str:
    """Return text on one line with one full stop at its end."""
    return f"{plain(text).rstrip('.')}."


def p_text(p: float | None) -> str:
    """Return a p of ours, or two dashes."""
    return NONE if p is None else "<0.001" if p < 0.001 else f"{p:.3f}"


def number_text(value: float | None, digits: int, *, signed: bool = False) -> str:
    """Return a number as text, or two dashes; what rounds to zero has no minus."""
    if value is None:
        return NONE
    rounded = round(value, digits) + 0.0
    return f"{rounded:+.{digits}f}" if signed else f"{rounded:.{digits}f}"


class Footnotes(dict[str, str]):
    """Text of a footnote -> its mark (a, b, ...)."""

    def mark(self, text: str | None) -> str:
        """Return the mark of a footnote, a new one unless the text is already a footnote; no text has no mark."""
        return self.setdefault(text, _letters(len(self))) if text else ""


def _letters(number: int) -> str:
    """Return a, b, ..., z, aa, ab, ..."""
    first = _letters(number // 26 - 1) if number >= 26 else ""
    return first + chr(ord("a") + number % 26)


@dataclass(frozen=True)
class Cell:
    """One cell: a number with its spread, its marks and the printed number."""

    text: str = NONE
    sd: str = ""
    printed: str = ""  #: the number of the paper, gray
    best: bool = False  #: bold: best mean of its column
    dagger: bool = False  #: differs from the baseline
    note: str = ""  #: mark of a footnote


@dataclass(frozen=True)
class Line:
    """One line: a cell per column, the marks of footnotes about the line, and where its numbers are from."""

    label: str
    cells: Sequence[Cell]
    notes: tuple[str, ...] = ()
    tag: str = ""
    source: str = ""  #: as `tag`, in full, for a CSV
    printed: bool = False  #: the paper's numbers alone


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
    footnotes: Footnotes = field(default_factory=Footnotes)
    notes: list[str] = field(default_factory=list)
    signatures: list[str] = field(default_factory=list)
    more: TextTable | None = None  #: behind a disclosure, with the notes: what is behind the lines

    @property
    def lines(self) -> list[Line]:
        """All lines of all blocks."""
        return [line for block in self.blocks for line in block.lines]

    @property
    def sentences(self) -> list[str]:
        """Footnotes behind their marks, then notes."""
        return [*(f"[{mark}] {text}" for text, mark in self.footnotes.items()), *self.notes]
