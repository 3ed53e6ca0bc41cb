"""One workflow per folder at a time, without `--unlock` after a kill.

Snakemake's lock files remain when it is killed. A kernel lock beside them does not: the process that gets it knows
that the owner of the files is dead, and removes them together with the unfinished files of killed jobs.
"""

from __future__ import annotations

import logging
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from snakemake_interface_logger_plugins.common import LogEvent

from recap.core.errors import RecapError
from recap.core.files.atomic import is_being_written
from recap.core.log import log
from recap.core.process.workflow_lock import lock_workflow

if TYPE_CHECKING:
    from snakemake.workflow import Workflow

UNFINISHED = (".*.part", ".*.part-journal")  # temporary files of recap.core.files.atomic and of SQLite within it


def lock_when_started(workflow: Workflow, folders: list[str]) -> None:
    """Lock this folder for the workflow when Snakemake starts to execute jobs.

    Dry runs, reports and `--unlock` execute none, and the Snakefile is read before Snakemake knows which of them was
    asked for. So this waits for the event WORKFLOW_STARTED, which Snakemake logs before it takes its own lock.
    """
    if workflow.is_main_process:
        logging.getLogger("snakemake.logging").addHandler(_WhenStarted(workflow, folders))


class _WhenStarted(logging.Handler):
    def __init__(self, workflow: Workflow, folders: list[str]) -> None:
        super().__init__()
        self.workflow = workflow
        self.folders = folders

    def emit(self, record: logging.LogRecord) -> None:
        """Lock the folder at the event WORKFLOW_STARTED."""
        started = getattr(record, "event", None) == LogEvent.WORKFLOW_STARTED
        if started and not self.workflow.output_settings.dryrun and self.workflow.execution_settings.lock:
            lock_folder(Path(".snakemake"), self.folders)


def lock_folder(snakemake_folder: Path, folders: list[str]) -> None:
    """Lock a folder and clean up after a workflow that was killed in it; exit if another one is running.

    Args:
        snakemake_folder: ``.snakemake``.
        folders: where jobs write; unfinished files below them are removed.
    """
    try:
        killed = lock_workflow(snakemake_folder / "recap")
    except RecapError as error:
        sys.exit(f"recap: {error}")
    if killed:
        log.info("recap: the previous workflow was killed; finished results are kept, unfinished jobs continue")
        shutil.rmtree(snakemake_folder / "locks", ignore_errors=True)
    for file in unfinished_files(folders):
        file.unlink(missing_ok=True)


def unfinished_files(folders: list[str]) -> list[Path]:
    """Return the temporary files of killed jobs below folders, but not those that a running process is writing."""
    found = [file for folder in folders for name in UNFINISHED for file in Path(folder).rglob(name) if file.is_file()]
    return [file for file in found if not is_being_written(file.with_name(file.name.removesuffix("-journal")))]
