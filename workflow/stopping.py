"""Ctrl-C and SIGTERM stop the workflow within seconds and with one message: its jobs get SIGTERM, save and exit.

Snakemake alone waits until running jobs have finished, which may take days, and then prints their commands.
"""

from __future__ import annotations

import atexit
import logging
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING

import psutil

from recap.core.process.interrupt import Interrupt

if TYPE_CHECKING:
    from snakemake.workflow import Workflow

SIGNAL_NAMES = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}
SHELLS = {"bash", "sh", "dash"}
POLL_SECONDS = 0.2
REPEAT_SECONDS = 1.0  # a signal that comes sooner is a repetition of the first


def stop_before_jobs(workflow: Workflow) -> None:
    """Exit with one message on a signal that comes before the first job."""

    interrupt = Interrupt()

    def stop(number: int, frame: FrameType | None) -> None:
        interrupt.raise_(SystemExit(f"recap: stopped by {SIGNAL_NAMES[number]} before the first job"), frame)

    if workflow.is_main_process and threading.current_thread() is threading.main_thread():
        for number in SIGNAL_NAMES:
            signal.signal(number, stop)
        atexit.register(_end, interrupt)


def _end(interrupt: Interrupt) -> None:
    """End an interrupt when Python ends: it takes down the handlers, and an alarm without one kills the process."""
    for number in SIGNAL_NAMES:
        signal.signal(number, signal.SIG_DFL)
    interrupt.end()


def stop_with_jobs(workflow: Workflow) -> None:
    """Stop Snakemake and its jobs on a signal: the first one lets jobs save, a second one kills them.

    Called when the scheduler exists, whose handler this one replaces. The handlers only write the signal to a pipe that
    a thread reads: the main thread may have been interrupted while it holds a lock that stopping needs.
    """
    reader, writer = os.pipe()
    threading.Thread(target=_listen, args=(workflow, reader), daemon=True).start()
    for number in SIGNAL_NAMES:
        signal.signal(number, lambda number, _: os.write(writer, bytes([number])))


def _listen(workflow: Workflow, reader: int) -> None:
    """Wait for a signal, start no more jobs, and send SIGTERM to running jobs, also to those that were just started."""
    name = SIGNAL_NAMES[os.read(reader, 1)[0]]
    _mute_snakemake()
    sentence = "running jobs save their state and end; the same command continues from there (repeat to kill them)"
    _print(f"recap: stopped by {name}: {sentence}")
    workflow.scheduler.exit_gracefully()
    signalled: set[psutil.Process] = set()
    since = time.monotonic()
    while not _signal_repeated(reader, since):
        for job in set(jobs(psutil.Process())) - signalled:
            _send(job, signal.SIGTERM)
            signalled.add(job)
    _print("recap: second signal: running jobs are killed; the same command continues from what they saved last")
    while True:
        for job in psutil.Process().children(recursive=True):
            _send(job, signal.SIGKILL)
        time.sleep(POLL_SECONDS)


def _signal_repeated(reader: int, since: float) -> bool:
    """Wait briefly and return whether another signal came; one at once after the first is its repetition."""
    if not select.select([reader], [], [], POLL_SECONDS)[0]:
        return False
    os.read(reader, 1)
    return time.monotonic() - since > REPEAT_SECONDS


def jobs(process: psutil.Process) -> Iterator[psutil.Process]:
    """Yield the commands that a process runs, below the shell that Snakemake starts it with, if that is still there."""
    with suppress(psutil.NoSuchProcess):  # it ended meanwhile
        for child in process.children():
            if _is_shell(child):
                yield from jobs(child)
            else:
                yield child


def _is_shell(process: psutil.Process) -> bool:
    try:
        return process.name() in SHELLS
    except psutil.NoSuchProcess:
        return True  # it has ended, and nothing runs below it


def _send(process: psutil.Process, number: int) -> None:
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess:
        return  # already ended


def _print(sentence: str) -> None:
    os.write(sys.stderr.fileno(), f"{sentence}\n".encode())


def _mute_snakemake() -> None:
    """Hide Snakemake's messages about jobs that end early from the terminal; its log file keeps them."""
    for handler in logging.getLogger("snakemake.logging").handlers:
        if not isinstance(handler, logging.FileHandler):
            handler.addFilter(lambda record: False)
