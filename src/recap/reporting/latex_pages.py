"""Cuts a table into floats of at most a page, by its estimated height."""

from __future__ import annotations

from collections.abc import Sequence

# Points, in an article of 11 points; one of 10 points is a tenth lower.
_PAGE = 640  # of the lowest page of the venues whose styles are tried
_CAPTION, _HEAD = 13.6, 50  # a line of the caption; rules, headings and space
_LINE, _SMALL_LINE = 11.5, 9.8  # of a tabular, by its size
_NOTE, _SPACE = 9.8, 5.0  # a line of notes; between blocks
_CAPTION_WIDTH, _NOTE_WIDTH = 80, 105  # characters of a line

Part = tuple[list[list[str]], list[str]]


def pages(blocks: Sequence[list[str]], notes: Sequence[str], *, caption: int, small: bool) -> list[Part]:
    """Return the blocks and the notes of each float.

    Args:
        blocks: the lines of each row of the table.
        notes: below the table; they follow the last block, in a float of their own where that is full.
        caption: characters of the first caption, which is the longest.
        small: whether the tabular is in the smaller size.
    """
    room = _PAGE - _HEAD - _CAPTION * (1 + caption // _CAPTION_WIDTH)
    parts: list[Part] = [([], [])]
    used = 0.0
    for block in blocks:
        height = _SPACE + len(block) * (_SMALL_LINE if small else _LINE)
        if used and used + height > room:
            parts.append(([], []))
            used = 0.0
        parts[-1][0].append(block)
        used += height
    for note in notes:
        height = _NOTE * (1 + len(note) // _NOTE_WIDTH)
        if used and used + height > room:
            parts.append(([], []))
            used = 0.0
        parts[-1][1].append(note)
        used += height
    return parts
