"""The line that says how a score was made, as in sacrebleu: ``pycocoevalcap:1.2|tok:ptb|refs:5|...``."""

from __future__ import annotations

from collections.abc import Mapping

from recap.core.errors import MetricError


def format_signature(fields: Mapping[str, str]) -> str:
    """Join ``key:value`` fields by ``|``.

    Raises:
        MetricError: a key or value holds a separator or is empty.
    """
    for key, value in fields.items():
        if not key or not value or any(char in key + value for char in "|\n") or ":" in key:
            raise MetricError(f"the signature field {key!r} cannot be {value!r}")
    return "|".join(f"{key}:{value}" for key, value in fields.items())


def parse_signature(text: str) -> dict[str, str]:
    """Return the fields of a signature in their order.

    Raises:
        MetricError: ``text`` is no signature.
    """
    fields = dict(part.partition(":")[::2] for part in text.split("|"))
    if not all(fields) or not all(fields.values()):
        raise MetricError(f"{text[:120]!r} is no score signature; evaluate this run again")
    return fields
