"""Messages while Snakemake works: which run begins,
ends or fails, and why; Snakemake's log file has all details.

A logger plugin: Snakemake finds it by the name of this package, and profiles/default asks for it
(`logger: recap`). `snakemake --quiet`, `--verbose`, `--printshellcmds` and `--debug-dag` print
Snakemake's own messages instead.
"""

from __future__ import annotations

import logging
import os
import shlex
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

from recap.core.log import FAILURES_VARIABLE, NOTHING_TO_DO, duration, failure_file
from recap.plan.run import job_label

PASS_ON = {"recap": True}  # as `extra`: this record of Snakemake's logger is for the terminal, too
_labels: dict[str, str] = {}
_due: list[Callable[[], list[str]]] = []
_muted: list[bool] = []


def introduce(labels: Mapping[str, str], due: Callable[[], list[str]]) -> None:
    """Tell the messages, once the runs are planned, what they are called.

    Args:
        labels: of every series of runs.
        due: returns one line for each run that is due; called when Snakemake has planned a dry run.
    """
    _labels.update(labels)
    _due[:] = [due]


def mute() -> None:
    """Print nothing more: the user stopped the workflow; jobs that end early did not fail."""
    _muted[:] = [True]


class LogHandler(LogHandlerBase):
    """Prints Snakemake's events in terms of runs."""

    writes_to_stream = True
    writes_to_file = False
    has_filter = False
    has_formatter = False
    needs_rulegraph = False

    def __post_init__(self) -> None:
        settings = self.common_settings
        self._unchanged = bool(
            settings.quiet or settings.verbose or settings.printshellcmds or settings.debug_dag
        )
        self._names: dict[int, str] = {}  # job id -> rule and run
        self._started: dict[int, float] = {}  # job id -> time.monotonic()
        self._ended = ""  # the job that ended last, until its progress is printed
        self._failures: dict[int, str] = {}  # by job id; a later attempt may succeed
        # notes before a run; None once it has begun
        self._before: list[logging.LogRecord] | None = []
        self._errors: list[logging.LogRecord] = []  # until it is known whether they are about a job
        self._begun = time.monotonic()
        self._stats: list[str] = []  # jobs per rule; a dry run sends them before and after its jobs

    def emit(self, record: logging.LogRecord) -> None:
        """Print an event, keep it until more is known, or drop it."""
        if _muted:
            return
        if self._unchanged:
            self._print(self.format(record))
            return
        event = getattr(record, "event", None)
        handlers: dict[LogEvent | None, Callable[[Any], None]] = {
            LogEvent.WORKFLOW_STARTED: self._start,
            LogEvent.RUN_INFO: self._plan,
            LogEvent.JOB_INFO: self._begin,
            LogEvent.JOB_FINISHED: self._end,
            LogEvent.PROGRESS: self._progress,
            LogEvent.JOB_ERROR: self._fail,
        }
        if event in handlers:
            handlers[event](record)
        elif record.levelno >= logging.ERROR:
            self._errors.append(record)
        elif record.levelno == logging.WARNING or hasattr(record, "recap"):
            self._print(self.format(record))
        elif event is None and self._before is not None:
            self._before.append(record)

    def close(self) -> None:
        """Print how the run ended; of a command that runs no job, what Snakemake had to say."""
        if not (_muted or self._unchanged):
            # errors without an event, or at the end of the workflow, only repeat that jobs failed
            if self._failures:
                again = "WorkflowError"
                self._errors = [
                    each for each in self._errors if getattr(each, "exception", again) != again
                ]
            for record in [*(self._before or []), *self._errors]:
                self._print(self.format(record))
            self._summarize()
        self._before, self._errors, self._failures, self._started, self._stats = [], [], {}, {}, []
        super().close()

    def _start(self, record: Any) -> None:
        self._before = None

    def _plan(self, record: Any) -> None:
        """Print how many jobs are due; of a dry run, when its jobs are known, also which runs."""
        self._stats.append(record.msg)
        if len(self._stats) == 1 + self.common_settings.dryrun:
            due = _due[0]() if _due and self.common_settings.dryrun else []
            self._print("\n".join([record.msg, *due]))

    def _begin(self, record: Any) -> None:
        if self.common_settings.dryrun or not record.output:
            return
        called = job_label(record.rule_name, dict(record.wildcards), _labels)
        self._names[record.jobid] = f"{record.rule_name} {called}".strip()
        self._started[record.jobid] = time.monotonic()
        reason = _failure(record)
        if reason is not None:
            reason.unlink(missing_ok=True)
        self._print(f"{_clock()} begin   {self._names[record.jobid]}")

    def _end(self, record: Any) -> None:
        self._ended = self._duration(record.job_id)
        self._failures.pop(record.job_id, None)

    def _progress(self, record: Any) -> None:
        if self._ended:
            self._print(f"{_clock()} end     {self._ended} ({record.done} of {record.total} jobs)")
        self._ended = ""

    def _fail(self, record: Any) -> None:
        """Print which job failed and the reason that its command recorded, else what a cluster or
        Snakemake says."""
        errors, self._errors = self._errors, []
        file = _failure(record)
        recorded = file is not None and file.exists()
        unknown = _on_cluster(record) or "killed, or out of memory?"
        reason = file.read_text(encoding="utf-8") if file is not None and recorded else unknown
        name = self._names.get(record.jobid, record.rule_name)
        self._failures[record.jobid] = f"{name}: {reason}"
        self._print(f"{_clock()} FAILED  {self._duration(record.jobid)}: {reason}")
        for error in [] if recorded else errors:
            self._print(self.format(error))

    def _summarize(self) -> None:
        """Print the jobs that failed, or how long all took, or that none was due."""
        if self._failures:
            jobs = "a job" if len(self._failures) == 1 else f"{len(self._failures)} jobs"
            heading = (
                f"recap: {jobs} failed; after fixing the cause, run the same command to finish the "
                "rest:"
            )
            self._print(
                "\n".join([heading, *(f"  {failure}" for failure in self._failures.values())])
            )
        elif self._started:
            self._print(f"{duration(time.monotonic() - self._begun)} in all")
        elif self._before is None and not self._stats and not self._errors:
            self._print(NOTHING_TO_DO)

    def _duration(self, job: int) -> str:
        name = self._names.get(job, "")
        return f"{name}, {duration(time.monotonic() - self._started[job])}" if name else ""

    def _print(self, text: str) -> None:
        stream = sys.stdout if self.common_settings.stdout else sys.stderr
        stream.write(f"{text}\n")
        stream.flush()


def _failure(record: Any) -> Path | None:
    """Return the file of why a job's command failed, or None if it is not of `recap`."""
    arguments = shlex.split(record.shellcmd or "")
    pairs = zip(arguments, arguments[1:], strict=False)
    start = next((number + 2 for number, pair in enumerate(pairs) if pair == ("-m", "recap")), None)
    if start is None or FAILURES_VARIABLE not in os.environ:
        return None
    return failure_file(Path(os.environ[FAILURES_VARIABLE]), arguments[start:])


def _on_cluster(record: Any) -> str:
    """Return what a cluster says of a job that failed, with the cluster's log of it.

    "" if none ran the job.
    """
    said = (getattr(record, "rule_msg", None) or "").partition("\n")[0].strip()
    begun = said and "external_jobid" in record.aux
    return f"{said} Its log: {os.path.relpath(record.log[-1])}" if begun else said


def _clock() -> str:
    return time.strftime("%H:%M:%S")
