"""Text from files, made safe for one line."""

from __future__ import annotations


def plain(text: str) -> str:
    """Return text on one line without control characters (captions and labels come from files)."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())
