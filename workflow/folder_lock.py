"""One workflow per folder at a time, without `--unlock` after a kill.

Snakemake's own lock files remain when it is killed, and cannot tell a dead owner; profiles/default turns them off
(`nolock: true`). A kernel lock takes their place.
"""

from __future__ import annotations

import sys
from pathlib import Path

from recap.core.errors import RecapError
from recap.core.files import is_being_written
from recap.core.log import log
from recap.core.process import LOCK_FOLDER, lock_workflow

UNFINISHED = (".*.part", ".*.part-journal")  # temporary files of recap.core.files and of SQLite within it


def lock_folder(folders: list[str]) -> None:
    """Lock the working folder, and clean up after a workflow that was killed in it; exit if another one is running.

    Args:
        folders: where jobs write; unfinished files below them are removed.
    """
    try:
        killed = lock_workflow(LOCK_FOLDER)
    except RecapError as error:
        sys.exit(f"recap: {error}")
    if killed:
        log.info("recap: the previous workflow was killed; finished results are kept, unfinished jobs continue")
    for file in unfinished_files(folders):
        file.unlink(missing_ok=True)


def unfinished_files(folders: list[str]) -> list[Path]:
    """Return the temporary files of killed jobs below folders, but not those that a running process is writing."""
    found = [file for folder in folders for name in UNFINISHED for file in Path(folder).rglob(name) if file.is_file()]
    return [file for file in found if not is_being_written(file.with_name(file.name.removesuffix("-journal")))]
