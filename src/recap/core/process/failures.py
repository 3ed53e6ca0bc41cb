"""The reason why a job failed, in a file: the workflow prints it beside the job's name, and again in its summary."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from recap.core.hashing import value_hash
from recap.core.log import log

# Set by the workflow for its jobs: the folder of these files.
FAILURES_VARIABLE = "RECAP_FAILURES"
NOTHING_TO_DO = "Nothing to be done: all requested files are up to date."
"""What the workflow prints then; `recap artifacts push` looks for it."""


def in_workflow() -> bool:
    """Return whether this process is a job of a workflow, and so shares the terminal with others."""
    return FAILURES_VARIABLE in os.environ


def failure_file(folder: Path, arguments: Sequence[str]) -> Path:
    """Return the file for a command's failure, named by the arguments of ``recap``, which both sides know."""
    return folder / f"{value_hash(list(arguments))}.txt"


def record_failure(reason: str) -> None:
    """Write the reason why this command fails; outside a workflow do nothing."""
    if not in_workflow():
        return
    file = failure_file(Path(os.environ[FAILURES_VARIABLE]), sys.argv[1:])
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(reason, encoding="utf-8", errors="replace")
    except OSError as error:
        # The disk itself may be the failure; the reason is printed to standard error in any case.
        log.error(f"recap: {file}: {error.strerror}")
