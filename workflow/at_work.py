"""One workflow at a time in a folder, which needs no `--unlock` after a kill.

Snakemake's own lock is files, which stay when it is killed. Beside them lies a lock of the kernel's, which does not:
who gets it knows that the files' owner is gone, and removes them, and what killed jobs had half written.
"""

from __future__ import annotations

import logging
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from snakemake_interface_logger_plugins.common import LogEvent

from recap.core.errors import RecapError
from recap.core.files.atomic import is_written
from recap.core.log import log
from recap.core.process.parent import hold

if TYPE_CHECKING:
    from snakemake.workflow import Workflow

HALF_WRITTEN = (".*.part", ".*.part-journal")  # what recap.core.files.atomic and, inside it, SQLite write beside a file


def hold_when_started(workflow: Workflow, folders: list[str]) -> None:
    """Make the workflow the only one in this folder when Snakemake begins to execute jobs.

    Dry runs, reports and `--unlock` execute none, and a Snakefile is read before it is known which of them it is for;
    so Snakemake's own word that it has started is waited for, which it says before it takes its lock.
    """
    if workflow.is_main_process:
        logging.getLogger("snakemake.logging").addHandler(_WhenStarted(workflow, folders))


class _WhenStarted(logging.Handler):
    def __init__(self, workflow: Workflow, folders: list[str]) -> None:
        super().__init__()
        self.workflow = workflow
        self.folders = folders

    def emit(self, record: logging.LogRecord) -> None:
        """Wait for one word of Snakemake's."""
        started = getattr(record, "event", None) == LogEvent.WORKFLOW_STARTED
        if started and not self.workflow.output_settings.dryrun and self.workflow.execution_settings.lock:
            begin(Path(".snakemake"), self.folders)


def begin(own: Path, folders: list[str]) -> None:
    """Hold a folder, and clear up behind a workflow that was killed in it; refuse beside a living one.

    Args:
        own: Snakemake's folder.
        folders: where jobs write; files that they had half written are removed.
    """
    try:
        killed = hold(own / "recap")
    except RecapError as error:
        sys.exit(f"recap: {error}")
    if killed:
        log.info("recap: the workflow before this one was killed; what its jobs had finished is kept, and they go on")
        shutil.rmtree(own / "locks", ignore_errors=True)
    for file in half_written(folders):
        file.unlink(missing_ok=True)


def half_written(folders: list[str]) -> list[Path]:
    """Return the files below folders that killed jobs had begun to write, but not what a living process writes."""
    found = [file for folder in folders for name in HALF_WRITTEN for file in Path(folder).rglob(name) if file.is_file()]
    return [file for file in found if not is_written(file.with_name(file.name.removesuffix("-journal")))]
