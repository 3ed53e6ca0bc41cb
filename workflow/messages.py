"""Messages while Snakemake works: which run begins, ends or fails, and why; Snakemake's log file has all details.

`snakemake --quiet`, `--verbose`, `--printshellcmds` and `--debug-dag` print Snakemake's own messages instead.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from snakemake_interface_logger_plugins.common import LogEvent
from workflow.plan import label, plan

from recap.core.log import configure
from recap.core.process.failures import FAILURES_VARIABLE, failure_file
from recap.core.progress import duration

LOGGER = "snakemake.logging"
# Starts of messages that Snakemake logs without an event; its other messages are passed on.
NOISE = (
    "Assuming unrestricted shared filesystem usage.",
    "Building DAG of jobs...",
    "Conda environments: ignored",
    "Execute ",
    "Exiting because a job execution failed.",
    "Reasons:\n",
    "Removing output files of failed job",
    "Rules claiming more threads",
    "Rules with provenance triggered jobs:",
    "Select jobs to execute...",
    "Some jobs were triggered by provenance information",  # advises to ignore the changes
    "Touching output file",
    "Using shell: ",
)
SILENT = {LogEvent.WORKFLOW_STARTED, LogEvent.RESOURCES_INFO, LogEvent.JOB_STARTED, LogEvent.SHELLCMD}
STATUS = re.compile(r"returned non-zero exit status (\d+)|died with <Signals\.(\w+)")


def install(workflow: Any, labels: Callable[[], Mapping[str, str]]) -> None:
    """Replace Snakemake's terminal output by messages about runs, unless the user asked for its own.

    Args:
        workflow: Snakemake's.
        labels: returns the label of every series of runs, once they are planned.
    """
    os.environ[FAILURES_VARIABLE] = str(Path(".snakemake/failures").absolute())
    configure()
    logger = logging.getLogger(LOGGER)
    settings = workflow.output_settings
    asked = settings.quiet or settings.verbose or settings.printshellcmds or settings.debug_dag
    terminal = next((handler for handler in logger.handlers if handler.name == "DefaultStreamHandler"), None)
    if terminal is not None and not asked and workflow.is_main_process:
        logger.removeHandler(terminal)
        logger.addHandler(Messages(workflow, terminal, labels))


class Messages(logging.Handler):
    """Prints Snakemake's events in terms of runs, and passes on all other messages.

    Args:
        workflow: Snakemake's.
        terminal: the handler that this one replaces; it prints what is passed on.
        labels: returns the label of every series of runs.
    """

    def __init__(self, workflow: Any, terminal: logging.Handler, labels: Callable[[], Mapping[str, str]]) -> None:
        super().__init__()
        self.workflow, self.terminal, self.labels = workflow, terminal, labels
        self.names: dict[int, str] = {}  # job id -> rule and run
        self.started: dict[int, float] = {}  # job id -> time.monotonic()
        self.seconds: dict[str, list[float]] = {}  # rule -> how long each of its jobs took
        self.planned = False
        self.ended = ""  # the job that ended last, until its progress is printed
        self.status: dict[int | None, re.Match[str]] = {}  # thread -> exit status of its failed command
        self.failed: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record, or pass it on."""
        event = getattr(record, "event", None)
        text = str(record.msg or "")
        handler = {
            LogEvent.RUN_INFO: self._plan,
            LogEvent.JOB_INFO: self._begin,
            LogEvent.JOB_FINISHED: self._end,
            LogEvent.PROGRESS: self._progress,
            LogEvent.JOB_ERROR: self._fail,
        }.get(event)
        if handler is not None:
            handler(record)
        elif event == LogEvent.ERROR and (status := STATUS.search(text)):
            self.status[record.thread] = status
        elif event == LogEvent.ERROR and "At least one job did not complete successfully." in text:
            self._summarize()
        elif text.startswith("Elapsed time: "):
            self._print("\n".join([*self._stages(), f"{self._since_start()} in all"]))
        elif event not in SILENT and not text.startswith(NOISE):
            self.terminal.handle(record)

    def _plan(self, record: Any) -> None:
        """Print once how many jobs are due, and which runs."""
        if self.planned:
            return
        self.planned = True
        self._print(record.msg)
        lines = plan(self.workflow, self.labels())
        if lines:
            self._print("\n".join([*lines, ""]))

    def _begin(self, record: Any) -> None:
        if self.workflow.output_settings.dryrun or not record.output:
            return
        called = label(record.rule_name, dict(record.wildcards), self.labels())
        self.names[record.jobid] = f"{record.rule_name} {called}".strip()
        self.started[record.jobid] = time.monotonic()
        reason = self._failure(record)
        if reason is not None:
            reason.unlink(missing_ok=True)
        self._print(f"{_clock()} begin   {self.names[record.jobid]}")

    def _end(self, record: Any) -> None:
        self.ended = self._duration(record.job_id)
        if self.ended:
            rule = self.names[record.job_id].partition(" ")[0]
            self.seconds.setdefault(rule, []).append(time.monotonic() - self.started[record.job_id])

    def _progress(self, record: Any) -> None:
        if self.ended:
            self._print(f"{_clock()} end     {self.ended} ({record.done} of {record.total} jobs)")
        self.ended = ""

    def _fail(self, record: Any) -> None:
        """Print which job failed, and the reason that its command recorded."""
        file = self._failure(record)
        status = self.status.pop(record.thread, None)
        if file is not None and file.exists():
            reason = file.read_text(encoding="utf-8")
        elif status is None:
            reason = "no reason was recorded; see the messages above"
        elif status.group(2):
            reason = f"killed by {status.group(2)}{' (out of memory?)' if status.group(2) == 'SIGKILL' else ''}"
        else:
            reason = f"its command exited with status {status.group(1)}; see its messages above"
        name = self.names.get(record.jobid, record.rule_name)
        self.failed.append(f"{name}: {reason}")
        self._print(f"{_clock()} FAILED  {self._duration(record.jobid)}: {reason}")

    def _summarize(self) -> None:
        if not self.failed:  # the user stopped it
            return
        jobs = "a job" if len(self.failed) == 1 else f"{len(self.failed)} jobs"
        lines = [f"recap: {jobs} failed; after fixing the cause, run the same command to finish the rest:"]
        self._print("\n".join([*lines, *(f"  {failed}" for failed in self.failed)]))

    def _stages(self) -> list[str]:
        """Return a line for each rule that ran: its jobs, and how long they took one after the other."""
        width = max(map(len, self.seconds), default=0)
        longest = sorted(self.seconds.items(), key=lambda item: -sum(item[1]))
        lines = [f"  {rule:{width}}  {len(times):>4}  {duration(sum(times)):>12}" for rule, times in longest]
        return ["", f"  {'stage':{width}}  {'jobs':>4}  {'together':>12}", *lines] if lines else []

    def _since_start(self) -> str:
        return duration(time.time() - self.workflow.start_time.timestamp())

    def _duration(self, job: int) -> str:
        name = self.names.get(job, "")
        return f"{name}, {duration(time.monotonic() - self.started[job])}" if name else ""

    def _failure(self, record: Any) -> Path | None:
        """Return the file for the reason why a job's command failed, or None if it is no `recap` command."""
        arguments = shlex.split(record.shellcmd or "")
        pairs = zip(arguments, arguments[1:], strict=False)
        start = next((number + 2 for number, pair in enumerate(pairs) if pair == ("-m", "recap")), None)
        return None if start is None else failure_file(Path(os.environ[FAILURES_VARIABLE]), arguments[start:])

    def _print(self, text: str) -> None:
        stream = sys.stdout if self.workflow.output_settings.stdout else sys.stderr
        stream.write(f"{text}\n")
        stream.flush()


def _clock() -> str:
    return time.strftime("%H:%M:%S")
