"""Ctrl-C and SIGTERM end the workflow within seconds and in one sentence: its jobs are told to save and end.

Snakemake by itself waits until running jobs have finished, which may take days, and then prints their commands.
"""

from __future__ import annotations

import logging
import os
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


def stop_before_jobs(workflow: Workflow) -> None:
    """Let a signal that comes before the first job end Snakemake in one sentence."""

    def stop(number: int, _: FrameType | None) -> None:
        sys.exit(f"recap: stopped by {WORDS[number]} before a job was started")

    if workflow.is_main_process and threading.current_thread() is threading.main_thread():
        for number in WORDS:
            signal.signal(number, stop)


def stop_with_jobs(workflow: Workflow) -> None:
    """Let a signal end Snakemake and its jobs: the first lets them save, a second kills them.

    Called when the scheduler has been made, whose own handler this one replaces.
    """
    received: list[int] = []

    def stop(number: int, _: FrameType | None) -> None:
        # Snakemake's main thread may hold the very lock that is needed now, hence another thread.
        received.append(number)
        last = len(received) > 1
        threading.Thread(target=_kill_jobs if last else _end_jobs, args=(workflow, WORDS[number]), daemon=True).start()

    for number in WORDS:
        signal.signal(number, stop)


def _end_jobs(workflow: Workflow, signal_name: str) -> None:
    """Start no more jobs, and tell those that run, and those that are just about to, to end."""
    _silence()
    sentence = "running jobs save their state and end; the same command goes on from there (once more: kill them)"
    _say(f"recap: stopped by {signal_name}: {sentence}")
    workflow.scheduler.exit_gracefully()
    told: set[psutil.Process] = set()
    while True:
        for job in set(jobs(psutil.Process())) - told:
            _send(job, signal.SIGTERM)
            told.add(job)
        time.sleep(LOOK_SECONDS)


def _kill_jobs(_: Workflow, signal_name: str) -> None:
    _say(f"recap: {signal_name} again: running jobs are killed; the same command goes on from what they saved last")
    for job in psutil.Process().children(recursive=True):
        _send(job, signal.SIGKILL)


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
