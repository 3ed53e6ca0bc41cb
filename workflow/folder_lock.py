"""One workflow per folder at a time, without `--unlock` after a kill.

Snakemake's own lock files remain when it is killed, and cannot tell a dead owner; profiles/default turns them off
(`nolock: true`). A lock that dies with its process takes their place.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from recap.core.errors import RecapError
from recap.core.files import remove_leftovers
from recap.core.log import log
from recap.core.process import LOCK_FOLDER, lock_workflow


def lock_folder(folders: list[str]) -> None:
    """Lock the working folder, and clean up after a workflow that was killed in it; exit if another one is running.

    Args:
        folders: where jobs write; temporary files of killed jobs below them are removed.
    """
    try:
        killed = lock_workflow(LOCK_FOLDER)
    except RecapError as error:
        sys.exit(f"recap: {error}")
    if killed:
        log.info("recap: the previous workflow was killed; finished results are kept, unfinished jobs continue")
    for top in folders:
        for folder, _, _ in os.walk(top):
            remove_leftovers(Path(folder), ".*")
