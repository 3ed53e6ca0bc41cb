"""One workflow per folder at a time, without `--unlock` after a kill.

Snakemake's own lock files remain when it is killed, and cannot tell a dead owner; profiles/default turns them off
(`nolock: true`). A lock that dies with its process takes their place.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from recap.core.errors import RecapError
from recap.core.files import remove_leftovers, try_lock
from recap.core.log import log
from recap.core.process import LOCK_FOLDER, lock_workflow


def lock_folder(results: str, *others: str) -> None:
    """Lock the working folder and that of the results, which may be a link, and remove what a killed workflow left."""
    Path(results).mkdir(parents=True, exist_ok=True)
    try:
        killed = lock_workflow(LOCK_FOLDER)
        if not try_lock(os.open(results, os.O_RDONLY)):  # until the process ends
            sys.exit(f"recap: the folder {results} is in use by a workflow of another folder; wait for it, or stop it")
    except RecapError as error:
        sys.exit(f"recap: {error}")
    if killed:
        log.info("recap: the previous workflow was killed; finished results are kept, unfinished jobs continue")
    for top in (results, *others):
        for folder, _, _ in os.walk(top):
            remove_leftovers(Path(folder), ".*")
