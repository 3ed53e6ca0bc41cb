"""Text from files, made safe for one line."""

from __future__ import annotations


def plain(text: str) -> str:
    """Return text on one line without control characters (captions and labels come from files)."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def p_text(p: float) -> str:
    """Return a p of ours."""
    return "<0.001" if p < 0.001 else f"{p:.3f}"


class Footnotes(dict[str, str]):
    """Mark (a, b, ...) -> text of a footnote."""

    def mark(self, text: str) -> str:
        """Return the mark of a footnote, a new one unless the text is already a footnote."""
        for mark, known in self.items():
            if known == text:
                return mark
        mark = _letters(len(self))
        self[mark] = text
        return mark


def _letters(number: int) -> str:
    """Return a, b, ..., z, aa, ab, ..."""
    first = _letters(number // 26 - 1) if number >= 26 else ""
    return first + chr(ord("a") + number % 26)
