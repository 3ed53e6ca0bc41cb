"""What several rules write in their directives: constraints of wildcards, limits of jobs on a cluster."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from recap.plan.resources import Need

MOST = 3  # times the limits of the plan that a job gets at last
# On Slurm, a job that continues where it was gets SIGTERM some time before its limit. Slurm's own comes KillWait (30 s)
# before SIGKILL, too short for a large batch. In a profile, `--set-resources` of the command line would take its place.
STOPPED_BEFORE_LIMIT = {"slurm_extra": "--signal=TERM@180"}


def one_of(names: Iterable[str]) -> str:
    """Return the regular expression that matches these names and nothing else."""
    return "|".join(map(re.escape, names)) or "(?!)"


def limits(need: Callable[[Any], Need]) -> dict[str, Callable[..., int]]:
    """Return the limits of a rule's jobs for the cluster that runs them; ``need`` gives those of some wildcards.

    A job that failed and is tried again (`--retries`) may have more memory and time, up to `MOST` times the plan's.
    """
    return {
        "mem_mb": lambda wildcards, attempt: need(wildcards).mem_mb * min(attempt, MOST),
        "runtime": lambda wildcards, attempt: need(wildcards).runtime * min(attempt, MOST),
        "disk_mb": lambda wildcards: need(wildcards).disk_mb,
    }
