"""Loads the plan, and names what the rules share. No science, and no work but loading the plan."""

import re
import sys
from pathlib import Path
from shlex import quote

from recap.core.process import devices
from recap.plan.load import uses_gpus
from recap.plan.run import file_name, run_named
from recap.settings.versions import list_of, read_versions

from workflow.load import load, load_planned, refuse
from workflow.directives import STOPPED_BEFORE_LIMIT, limits, one_of
from workflow.planned import passed_on
from workflow.specs import SpecText

# Jobs run in this very Python, so that the environment need not be on PATH. With -P no file of the working folder is
# taken for an installed module. `exec`: a job's command takes the place of its shell, so that signals reach it.
RECAP = f"exec {quote(sys.executable)} -P -m recap"

# Ctrl-C reaches jobs as the workflow's SIGTERM; as itself it would meet Python before it can say anything but a traceback.
shell.prefix("set -euo pipefail; trap '' INT; ")

PLANNED = None if workflow.is_main_process else passed_on()
PLAN, PATHS, ACQUIRED, NEEDS = load_planned(PLANNED) if PLANNED else load(config, workflow.configfiles)
PROFILE, VERSIONS = PLAN.profile, list_of(PLAN.params)
LISTED = read_versions(VERSIONS) if VERSIONS.exists() else {}
config["name"] = PROFILE.name  # with the scale, for captions of the report
R, LOGS, WORK, REPORTS = PATHS.results, PATHS.logs, PATHS.work, PATHS.reports
SCORED, TRAINED, LABELS = PLAN.scored(), PLAN.trained(), PLAN.labels()
TABLE_IDS = {file_name(name): name for name in PLAN.tables}
FIGURE_IDS = {file_name(name): name for name in PLAN.figures}
RUN = "{dataset}/{subset}/{features}/{model}@{recipe}/seed-{seed}"
# How jobs are computed reaches them by a file that is no input of theirs, so that it makes nothing again.
EXECUTION = f"{WORK}/execution"
DEVICE = PROFILE.execution.device
# Jobs that ask for a GPU share those of the machine, one each; on the CPU no job waits.
GPU = int(uses_gpus(PROFILE.execution))
if "gpu" not in workflow.global_resources:  # --resources gpu=N says otherwise
    workflow.register_resource("gpu", max(1, len(devices())))


wildcard_constraints:
    dataset="[^/@]+",
    subset="[^/@]+",
    features="[^/@]+",
    language_model="[^/@]+",
    model="[^/@]+",
    recipe="[^/@]+",
    seed="-?[0-9]+",
    seeds="[-+0-9]+",
    stage="xe|scst",
    table="[^/]+",
    study="[^/]+",


def as_json(value):
    """Return a spec as a parameter that Snakemake compares; its ``file``, written now, is what the command is given."""
    return SpecText.written(value, Path(WORK) / "specs")


def may_grow(stores):
    """Return feature stores as inputs whose times do not count: one that grows makes no run again.

    What changes the numbers in them changes the notes of their extractors, which are inputs, too.
    """
    return [ancient(store) for store in stores]


def growing_features(wildcards):
    """Return the feature stores of a run, which may grow."""
    return may_grow(PATHS.features(wildcards))


def table_id(wildcards):
    """Return the table whose files have a name: ``xlan/t3`` for ``xlan_t3``."""
    return TABLE_IDS[wildcards.table]
