"""Ctrl-C and SIGTERM end the workflow within seconds and in one sentence: its jobs are told to save and end.

Snakemake by itself waits until running jobs have finished, which may take days, and then prints their commands.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from snakemake.workflow import Workflow

WORDS = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}
SHELLS = {"bash", "sh", "dash"}
LOOK_SECONDS = 0.2
REPEAT_SECONDS = 1.0


def stop_before_jobs(workflow: Workflow) -> None:
    """Let a signal that comes before the first job end Snakemake in one sentence."""

    def stop(number: int, _: FrameType | None) -> None:
        sys.exit(f"recap: stopped by {WORDS[number]} before a job was started")

    if workflow.is_main_process and threading.current_thread() is threading.main_thread():
        for number in WORDS:
            signal.signal(number, stop)


def stop_with_jobs(workflow: Workflow) -> None:
    """Let a signal end Snakemake and its jobs: the first lets them save, a later one kills them.

    Called when the scheduler has been made, whose own handler this one replaces. The handlers only pass the signal on
    to a thread: the main thread may have been interrupted while it holds a lock that stopping needs.
    """
    heard, tell = os.pipe()
    threading.Thread(target=_listen, args=(workflow, heard), daemon=True).start()
    for number in WORDS:
        signal.signal(number, lambda number, _: os.write(tell, bytes([number])))


def _listen(workflow: Workflow, heard: int) -> None:
    """Wait for a signal, start no more jobs, and tell those that run, and those that are just about to, to end."""
    name = WORDS[os.read(heard, 1)[0]]
    _silence()
    sentence = "running jobs save their state and end; the same command goes on from there (once more: kill them)"
    _say(f"recap: stopped by {name}: {sentence}")
    workflow.scheduler.exit_gracefully()
    told: set[psutil.Process] = set()
    since = time.monotonic()
    while not _heard_again(heard, since):
        for job in set(jobs(psutil.Process())) - told:
            _send(job, signal.SIGTERM)
            told.add(job)
    _say("recap: once more: running jobs are killed; the same command goes on from what they saved last")
    while True:
        for job in psutil.Process().children(recursive=True):
            _send(job, signal.SIGKILL)
        time.sleep(LOOK_SECONDS)


def _heard_again(heard: int, since: float) -> bool:
    """Wait a little and return whether another signal came; programs around Snakemake repeat the first at once."""
    if not select.select([heard], [], [], LOOK_SECONDS)[0]:
        return False
    os.read(heard, 1)
    return time.monotonic() - since > REPEAT_SECONDS


def jobs(process: psutil.Process) -> Iterator[psutil.Process]:
    """Yield the commands that a process runs, each behind the shell that Snakemake starts it with, if one stayed."""
    for child in process.children():
        try:
            is_shell = child.name() in SHELLS
        except psutil.NoSuchProcess:
            continue
        if is_shell:
            yield from jobs(child)
        else:
            yield child


def _send(process: psutil.Process, number: int) -> None:
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess:
        return  # it ended by itself


def _say(sentence: str) -> None:
    os.write(sys.stderr.fileno(), f"{sentence}\n".encode())


def _silence() -> None:
    """Keep from the terminal what Snakemake says of jobs that end early; its log file has it all."""
    for handler in logging.getLogger("snakemake.logging").handlers:
        if not isinstance(handler, logging.FileHandler):
            handler.addFilter(lambda record: False)
