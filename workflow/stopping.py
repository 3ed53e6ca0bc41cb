"""One workflow a folder, which ends with its jobs:
on this machine by signals, on a Slurm cluster by `scancel`.

Jobs get SIGTERM, save and exit. Snakemake alone waits until they have finished, which may take
days.
"""

from __future__ import annotations

import os
import queue
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil
from filelock import lock_descriptor

import snakemake_logger_plugin_recap as messages
from recap.core.errors import RecapError
from recap.core.files import remove_leftovers
from recap.core.log import log
from recap.core.process import LOCK_FOLDER, ending_with_us, lock_workflow

SIGNAL_NAMES = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}
POLL_SECONDS = 0.2
REPEAT_SECONDS = 1.0  # a signal that comes sooner is a repetition of the first
PREFIX = "recap"  # of the names of jobs: slurm-jobname-prefix in profiles/slurm
# the plugin adds a UUID
_JOB_NAME = re.compile(f"{PREFIX}_[0-9a-f]{{8}}(-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}")
_ENDING_SECONDS = 180.0  # for jobs that were cancelled: longer than any cluster's KillWait


# Snakemake's own lock files remain when it is killed
# and cannot tell a dead owner; profiles/default turns them off.
def lock_folder(results: str, *others: str) -> None:
    """Lock the working folder and that of the results,
    which may be a link, and remove what a killed workflow left."""
    Path(results).mkdir(parents=True, exist_ok=True)
    try:
        killed = lock_workflow(LOCK_FOLDER)
        if not lock_descriptor(
            os.open(results, os.O_RDONLY), blocking=False
        ):  # until the process ends
            sys.exit(
                f"recap: the folder {results} is in use by a workflow of another folder; wait for "
                "it, or stop it"
            )
    except RecapError as error:
        sys.exit(f"recap: {error}")
    if killed:
        log.info(
            "recap: the previous workflow was killed; finished results are kept, unfinished jobs "
            "continue"
        )
    for top in (results, *others):
        for folder, _, _ in os.walk(top):
            remove_leftovers(Path(folder), ".*")


def job_prefix() -> str:
    """Return the beginning of a job's command,
    which takes its shell's place and ends with the workflow in any case."""
    # Ctrl-C reaches jobs as SIGTERM;
    # as itself it would meet Python before it can say anything but a traceback.
    with_us = shlex.join(map(str, ending_with_us([])))
    watched = (
        ""
        if with_us
        else "(while kill -0 $PPID && kill -0 $$; do sleep 1; done; kill $$) 2> /dev/null & "
    )
    return f"set -euo pipefail; trap '' INT; {watched}exec {with_us} "


def stop_with_jobs() -> None:
    """Stop Snakemake and its jobs on a signal: the first lets jobs save, a second kills them."""
    # The handlers only fill a queue:
    # the main thread may hold a lock that the scheduler's handler, set before, needs.
    signals: queue.SimpleQueue[int] = queue.SimpleQueue()
    threading.Thread(
        target=_listen, args=(signals, signal.getsignal(signal.SIGTERM)), daemon=True
    ).start()
    for number in SIGNAL_NAMES:
        signal.signal(number, lambda number, _: signals.put(number))


def _listen(signals: queue.SimpleQueue[int], start_no_more: object) -> None:
    """Wait for a signal, start no more jobs,
    and send SIGTERM to running jobs, also to those that were just started."""
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
    while True:
        with suppress(queue.Empty):  # a signal at once after the first is its repetition
            signals.get(timeout=POLL_SECONDS)
            if time.monotonic() - since > REPEAT_SECONDS:
                break
        jobs = set(psutil.Process().children())
        for job in jobs - signalled:
            _send(job, signal.SIGTERM)
        signalled |= jobs
    _print(
        "recap: second signal: running jobs are killed; the same command continues from what they "
        "saved last"
    )
    while True:
        for job in psutil.Process().children(recursive=True):
            _send(job, signal.SIGKILL)
        time.sleep(POLL_SECONDS)


def _send(process: psutil.Process, number: int) -> None:
    with suppress(psutil.NoSuchProcess):  # already ended
        process.send_signal(number)


def _print(sentence: str) -> None:
    os.write(sys.stderr.fileno(), f"{sentence}\n".encode())


def stop_with_cluster() -> None:
    """Let SIGTERM do what Ctrl-C does, which cancels the jobs.

    Snakemake alone waits until they have finished.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)


# They outlive a killed workflow; a job of it and its repetition would write to one folder.
# `scancel` sends SIGTERM
# first: a training saves its state, from which the same command continues.
def cancel_left_jobs() -> None:
    """Cancel what a killed workflow left in Slurm's queue for this folder, and wait for its end."""
    if not (left := jobs_here()):
        return
    log.info(
        f"recap: {len(left)} jobs of the previous workflow are in Slurm's queue: cancelled, and "
        "waited for"
    )
    _slurm("scancel", *left)
    end = time.monotonic() + _ENDING_SECONDS
    while left := jobs_here():
        if time.monotonic() > end:
            sys.exit(
                f"recap: Slurm's jobs {', '.join(left)} do not end; look at them with squeue, then "
                "start again"
            )
        time.sleep(1.0)


def jobs_here() -> list[str]:
    """Return the numbers of the jobs that workflows in this folder have in Slurm's queue."""
    if shutil.which("squeue") is None:
        return []  # another batch system
    rows = [
        row.split("|", 2)
        for row in _slurm("squeue", "--me", "--noheader", "--format=%A|%j|%Z").splitlines()
    ]
    return [
        number
        for number, name, folder in rows
        if _JOB_NAME.fullmatch(name) and Path(folder) == Path.cwd()
    ]


def _slurm(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(
            f"recap: {command[0]}: {done.stderr.strip() or 'failed'}; see that Slurm answers, then "
            "start again"
        )
    return done.stdout
