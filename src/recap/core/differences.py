"""In what two nested mappings of settings differ, in words."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

_LISTED = 3  # names in one line
_LONGEST = 60  # characters of a value


def differences(
    old: Mapping[str, Any], new: Mapping[str, Any], names: Mapping[str, str] | None = None, prefix: str = ""
) -> list[str]:
    """Return the keys in which two nested mappings differ, each with both values.

    Args:
        old, new: plain values, as JSON has them.
        names: other names of keys of the top level.
        prefix: of each key.
    """
    said = []
    for key in sorted({*old, *new}):
        path = prefix + (names or {}).get(key, key)
        first, second = old.get(key), new.get(key)
        if isinstance(first, dict) and isinstance(second, dict):
            said += differences(first, second, None, f"{path}.")
        elif key not in old:
            said.append(f"{path} (new) {_short(second)}")
        elif key not in new:
            said.append(f"{path} (gone)")
        elif first != second:
            said.append(f"{path} {_short(first)} -> {_short(second)}")
    return said


def listed(names: Sequence[str]) -> str:
    """Return names in one line: the first few, and how many more there are."""
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more


def _short(value: Any) -> str:
    """Return a value as JSON, cut where it is long."""
    text = json.dumps(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
