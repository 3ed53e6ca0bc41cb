"""Why a job of a workflow failed, left in a file: the workflow says it beside the job's name, and again at its end."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from recap.core.hashing import value_hash
from recap.core.log import log

# Set by the workflow for its jobs: the folder of these files.
VARIABLE = "RECAP_FAILURES"


def in_workflow() -> bool:
    """Return whether this process is a job of a workflow, and so shares the terminal with others."""
    return VARIABLE in os.environ


def failure_file(folder: Path, words: Sequence[str]) -> Path:
    """Return where a command leaves why it failed; it follows from the words after ``recap``, which both sides know."""
    return folder / f"{value_hash(list(words))}.txt"


def leave(reason: str) -> None:
    """Leave why this command fails; nothing outside a workflow."""
    if not in_workflow():
        return
    file = failure_file(Path(os.environ[VARIABLE]), sys.argv[1:])
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(reason, encoding="utf-8", errors="replace")
    except OSError as error:
        # What failed may be the disk; the reason itself stands on standard error.
        log.error(f"recap: {file}: {error.strerror}")
