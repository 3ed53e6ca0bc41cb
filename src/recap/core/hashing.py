"""What a result was made from: hashes, seeds, the commit of the code, signatures of scores."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

_PACKAGE = Path(__file__).resolve().parent.parent


def sha256_file(path: str | Path) -> str:
    """Return the sha256 of a file's bytes, read in pieces."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def value_sha256(value: Any) -> str:
    """Return the sha256 of ``value`` as canonical JSON; equal on every Python version."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def value_hash(value: Any) -> str:
    """Return the first 16 hex digits of :func:`value_sha256`."""
    return value_sha256(value)[:16]


def derived_seed(seed: int, *purpose: str | int) -> int:
    """Return a 63-bit seed for one purpose, e.g. ``derived_seed(1, "shuffle", epoch)``."""
    text = "/".join(str(part) for part in (seed, *purpose))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(seed: int, *purpose: str | int) -> np.random.Generator:
    """Return a numpy generator for one purpose (PCG64, whose stream numpy keeps stable)."""
    import numpy as np

    return np.random.Generator(np.random.PCG64(derived_seed(seed, *purpose)))


@cache
def commit() -> str:
    """Return the commit of this package's checkout, with ``-dirty`` where tracked files differ.

    Else ``unknown``.
    """
    head = _git("rev-parse", "--verify", "HEAD")
    if not head or not _git("ls-files", "--error-unmatch", str(_PACKAGE / "__init__.py")):
        return "unknown"  # installed from a wheel, or in an environment that git does not track
    # Both are written when results are recorded: they say nothing about the code.
    results = [f":(exclude,top){name}" for name in ("dvc.lock", "dvc.listings.json")]
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", ":/", *results)
    return f"{head}-dirty" if changed else head


def _git(*arguments: str) -> str:
    """Return what git prints, or nothing where git is absent or refuses."""
    import subprocess

    command = ["git", "-C", str(_PACKAGE), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def format_signature(fields: Mapping[str, str]) -> str:
    """Return the line that says how a score was made, as in sacrebleu:
    ``pycocoevalcap:1.2|tok:ptb|refs:5|...``."""
    return "|".join(f"{key}:{value}" for key, value in fields.items())


def parse_signature(text: str) -> dict[str, str]:
    """Return the fields of a signature in their order."""
    return dict(part.partition(":")[::2] for part in text.split("|"))
