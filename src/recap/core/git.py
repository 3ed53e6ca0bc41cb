"""Which commit of the code made a result."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent


@cache
def commit() -> str:
    """Return the commit hash of this package's checkout, with ``-dirty`` where tracked files differ from it.

    ``unknown`` means a package outside git: installed from a wheel, or in an environment that git does not track.
    """
    if not _git("ls-files", "--error-unmatch", str(_PACKAGE / "__init__.py")):
        return "unknown"
    head = _git("rev-parse", "--verify", "HEAD")
    if not head:
        return "unknown"
    # Both are written when results are recorded: they say nothing about the code.
    results = [f":(exclude,top){name}" for name in ("dvc.lock", "dvc.listings.json")]
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", ":/", *results)
    return f"{head}-dirty" if changed else head


def _git(*arguments: str) -> str:
    """Return what git prints, or nothing where git is absent or refuses."""
    try:
        done = subprocess.run(
            ["git", "-C", str(_PACKAGE), *arguments], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
