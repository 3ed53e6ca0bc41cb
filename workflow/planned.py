"""What the main process planned, as a file for its jobs on a cluster.

A job there begins Snakemake twice more, and each time the Snakefile is read. Without this file both would read and
check all parameters and follow the whole source again, for one command.
"""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import NamedTuple

from recap.core.files import atomic_path
from recap.core.process import LOCK_FOLDER
from recap.plan.cost import Parameters
from recap.plan.outside import Acquired
from recap.plan.run_plan import RunPlan
from recap.plan.source import Key, known_digests, take_digests

VARIABLE = "RECAP_PLANNED"  # names the file; Slurm gives jobs the environment of the process that submits them


class Planned(NamedTuple):
    """What every job of a workflow needs to know of its plan."""

    plan: RunPlan
    acquired: Acquired
    parameters: Parameters
    digests: dict[Key, str]


def pass_on(plan: RunPlan, acquired: Acquired, parameters: Parameters) -> None:
    """Write what was planned, and name the file to the jobs that are submitted from now on.

    It is written where the folder is locked: no other workflow has jobs there.
    """
    file = (LOCK_FOLDER / "planned").absolute()
    with atomic_path(file) as part:
        part.write_bytes(pickle.dumps(Planned(plan, acquired, parameters, known_digests())))
    os.environ[VARIABLE] = str(file)


def passed_on() -> Planned | None:
    """Return what the main process of this job planned; None if it wrote no file."""
    if VARIABLE not in os.environ:
        return None
    planned: Planned = pickle.loads(Path(os.environ[VARIABLE]).read_bytes())  # the main process of this user wrote it
    take_digests(planned.digests)
    return planned
