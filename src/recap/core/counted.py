"""Numbers with their noun in messages."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """Return ``1 table``, ``2 tables`` or ``1,000 tables``; the plural of the noun must end in -s."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
