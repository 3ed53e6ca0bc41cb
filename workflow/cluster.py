"""A workflow whose jobs run on a Slurm cluster: they outlive a workflow that was killed, so the next one cancels them.

`scancel` sends SIGTERM first: a training saves its state and ends. The same command then continues from that state.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from recap.core.log import log

PREFIX = "recap"  # of the names of jobs: slurm-jobname-prefix in profiles/slurm
_JOB_NAME = re.compile(f"{PREFIX}_[0-9a-f]{{8}}(-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}")  # the plugin adds a UUID
_ENDING_SECONDS = 180.0  # for jobs that were cancelled: longer than any cluster's KillWait
_PAUSE = 1.0


def stop_with_cluster() -> None:
    """Let SIGTERM do what Ctrl-C does, which cancels the jobs; Snakemake alone waits until they have finished."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def cancel_left_jobs() -> None:
    """Cancel what a killed workflow left in Slurm's queue for this folder, and wait until it has ended.

    Without this, a job of the killed workflow and its repetition would write to one folder.

    Raises:
        SystemExit: the jobs do not end, or Slurm does not answer.
    """
    if not (left := jobs_here()):
        return
    log.info(f"recap: {len(left)} jobs of the previous workflow are in Slurm's queue: cancelled, and waited for")
    _slurm("scancel", *left)
    end = time.monotonic() + _ENDING_SECONDS
    while left := jobs_here():
        if time.monotonic() > end:
            sys.exit(f"recap: Slurm's jobs {', '.join(left)} do not end; look at them with squeue, then start again")
        time.sleep(_PAUSE)


def jobs_here() -> list[str]:
    """Return the numbers of the jobs that workflows in this folder have in Slurm's queue."""
    if shutil.which("squeue") is None:
        return []  # another batch system
    lines = _slurm("squeue", "--me", "--noheader", "--format=%A|%j|%Z").splitlines()
    found = [line.split("|", 2) for line in lines]
    return [number for number, name, folder in found if _JOB_NAME.fullmatch(name) and Path(folder) == Path.cwd()]


def _slurm(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"recap: {command[0]}: {done.stderr.strip() or 'failed'}; see that Slurm answers, then start again")
    return done.stdout
