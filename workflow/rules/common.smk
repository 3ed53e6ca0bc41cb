"""Loads the plan, and gives rules what its jobs say. In all rules `w` are the wildcards of a job."""

import os
import sys
from pathlib import Path
from shlex import quote

from recap.core.process import SHARED, devices
from recap.plan.job import Jobs

from workflow.internals import offer_gpus
from workflow.load import STOPPED_BEFORE_LIMIT, load, load_pickled_plan, refuse
from workflow.stopping import job_prefix
from workflow.wiring import Wiring

# Jobs run in this very Python, so that the environment need not be on PATH.
# With -P no file of the working folder is taken for an installed module.
RECAP = f"{quote(sys.executable)} -P -m recap"

shell.prefix(job_prefix())

PLANNED = (None if workflow.is_main_process else load_pickled_plan()) or load(
    config, workflow.configfiles
)
PLAN, JOBS = PLANNED.plan, PLANNED.jobs
FILES, PROFILE = PLAN.files, PLAN.profile
config["name"] = PROFILE.name  # with the scale, for captions of the report
R, LOGS, WORK, REPORTS = FILES.results, FILES.logs, FILES.work, FILES.reports
LABELS = PLAN.labels()
SERIES = "{dataset}/{subset}/{features}/{model}@{recipe}"
RUN = f"{SERIES}/seed-{{seed}}"
# How jobs are computed reaches them by a file
# that is no input of theirs, so that it makes nothing again.
EXECUTION = f"{WORK}/execution"
DEVICE = PROFILE.execution.device
# Jobs that ask for a GPU share those of the machine,
# `trainings_per_gpu` on each; on the CPU no job waits.
os.environ[SHARED] = str(PROFILE.execution.trainings_per_gpu)
offer_gpus(workflow, max(1, len(devices())) * PROFILE.execution.trainings_per_gpu)

# What gives each rule its inputs, outputs and parameters, and the job behind its wildcards.
WIRING = Wiring(Jobs([*JOBS, *PLANNED.acquisitions], FILES), FILES)
inputs, outputs, params, job = WIRING.inputs, WIRING.outputs, WIRING.params, WIRING.job


wildcard_constraints:
    **dict.fromkeys(
        ["dataset", "subset", "features", "language_model", "model", "recipe"], "[^/@]+"
    ),
    **dict.fromkeys(["table", "study"], "[^/]+"),
    seed="-?[0-9]+",
    seeds="[-+0-9]+",
    stage="xe|scst",
