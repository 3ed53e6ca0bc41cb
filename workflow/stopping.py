"""Ctrl-C and SIGTERM stop the workflow within seconds and with one message: its jobs get SIGTERM, save and exit.

Snakemake alone waits until running jobs have finished, which may take days. Before the first job its own handlers do.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
import time
from contextlib import suppress

import psutil

import snakemake_logger_plugin_recap as messages

SIGNAL_NAMES = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}
POLL_SECONDS = 0.2
REPEAT_SECONDS = 1.0  # a signal that comes sooner is a repetition of the first


def stop_with_jobs() -> None:
    """Stop Snakemake and its jobs on a signal: the first one lets jobs save, a second one kills them.

    Called when the scheduler has set its handler of SIGTERM, which starts no more jobs. The handlers here only put the
    signal into a queue: the main thread may have been interrupted while it holds a lock that Snakemake's handler needs.
    """
    signals: queue.SimpleQueue[int] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(signals, signal.getsignal(signal.SIGTERM)), daemon=True).start()
    for number in SIGNAL_NAMES:
        signal.signal(number, lambda number, _: signals.put(number))


def _listen(signals: queue.SimpleQueue[int], start_no_more: object) -> None:
    """Wait for a signal, start no more jobs, and send SIGTERM to running jobs, also to those that were just started."""
    name = SIGNAL_NAMES[signal.Signals(signals.get())]
    since = time.monotonic()
    messages.mute()
    _print(
        f"recap: stopped by {name}: running jobs save their state and end; "
        "the same command continues from there (repeat to kill them)"
    )
    if callable(start_no_more):
        start_no_more(signal.SIGTERM, None)
    signalled: set[psutil.Process] = set()
    while not _repeated(signals, since):
        for job in set(psutil.Process().children()) - signalled:
            _send(job, signal.SIGTERM)
            signalled.add(job)
    _print("recap: second signal: running jobs are killed; the same command continues from what they saved last")
    while True:
        for job in psutil.Process().children(recursive=True):
            _send(job, signal.SIGKILL)
        time.sleep(POLL_SECONDS)


def _repeated(signals: queue.SimpleQueue[int], since: float) -> bool:
    """Wait briefly and return whether another signal came; one at once after the first is its repetition."""
    try:
        signals.get(timeout=POLL_SECONDS)
    except queue.Empty:
        return False
    return time.monotonic() - since > REPEAT_SECONDS


def _send(process: psutil.Process, number: int) -> None:
    with suppress(psutil.NoSuchProcess):  # already ended
        process.send_signal(number)


def _print(sentence: str) -> None:
    os.write(sys.stderr.fileno(), f"{sentence}\n".encode())
