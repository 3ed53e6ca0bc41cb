"""JSON files that jobs write for each other: equal values give equal bytes, and each is checked when read."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from recap.core.errors import DamagedFile, MissingFile, RecapError
from recap.core.files.atomic import write_text
from recap.core.problems import adapter, first_problem


def write_json(path: str | Path, value: Any) -> None:
    """Write ``value`` as JSON with sorted keys, atomically, so that equal values give equal bytes."""
    write_text(path, json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: str | Path, kind: Any = Any) -> Any:
    """Read a JSON file that a job made, as a type that pydantic knows.

    Raises:
        RecapError: it is missing, broken or of another type; the sentence names file and key.
    """
    path = Path(path)
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise MissingFile(f"{path}: no such file; run the step that makes it first") from error
    except OSError as error:
        raise RecapError(f"{path}: cannot be read ({error.strerror}); name a file that you may read") from error
    return parse_json(content, str(path), kind)


def parse_json(content: bytes, source: str, kind: Any = Any) -> Any:
    """Return what a JSON text holds, as a type that pydantic knows.

    Args:
        content: the text in UTF-8.
        source: where it is from, for messages.
        kind: the type.

    Raises:
        RecapError: it is no JSON of this type, or holds a number that `write_json` does not write.
    """
    try:
        values = json.loads(content.decode(), parse_int=_whole, parse_float=_finite, parse_constant=_finite)
        return adapter(kind).validate_python(values)
    except ValidationError as error:
        raise DamagedFile(
            f"{source}: {first_problem(error, kind)}; delete it and repeat the command that makes it"
        ) from error
    except (ValueError, RecursionError) as error:
        raise DamagedFile(
            f"{source}: not valid JSON ({error}); delete it and repeat the command that makes it"
        ) from error


def _whole(text: str) -> int:
    if not -(2**63) <= (number := int(text)) < 2**63:
        raise ValueError("a whole number has more than 64 bits")
    return number


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text[:20]} is no finite number")
    return number
