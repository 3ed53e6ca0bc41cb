"""Loads the plan, and names what the rules share. In all rules `w` are the wildcards of a job."""

import os
import re
import sys
from pathlib import Path
from shlex import quote

from recap.core.hashing import value_hash
from recap.core.process import SHARED, devices
from recap.plan.jobs import evaluation_spec, execution, run_spec
from recap.plan.paths import EXTRACTOR, Paths
from recap.plan.profiles import uses_gpus
from recap.plan.run import file_name, run_named
from recap.plan.source import PICTURES as PICTURE_SOURCE, code_digest, job_code
from recap.settings.versions import list_of, read_versions

from workflow.profile import STOPPED_BEFORE_LIMIT, SpecText, load, one_of, passed_on, refuse
from workflow.records import read_record
from workflow.stopping import job_prefix

# Jobs run in this very Python, so that the environment need not be on PATH.
# With -P no file of the working folder is taken for an installed module.
RECAP = f"{quote(sys.executable)} -P -m recap"

shell.prefix(job_prefix())

PLANNED = (None if workflow.is_main_process else passed_on()) or load(config, workflow.configfiles)
PLAN = PLANNED.plan
PATHS, PROFILE, VERSIONS = Paths(PLAN), PLAN.profile, list_of(PLAN.params)
LISTED = read_versions(VERSIONS) if VERSIONS.exists() else {}
config["name"] = PROFILE.name  # with the scale, for captions of the report
R, LOGS, WORK, REPORTS = PATHS.results, PATHS.logs, PATHS.work, PATHS.reports
SCORED, TRAINED, LABELS = PLAN.scored(), PLAN.trained(), PLAN.labels()
TABLE_IDS = {file_name(name): name for name in PLAN.tables}
DATA, CORPUS, VOCABULARY = (
    PATHS.of_dataset("{dataset}", name) for name in ("", "corpus.parquet", "vocabulary.json")
)
RUN = "{dataset}/{subset}/{features}/{model}@{recipe}/seed-{seed}"
# How jobs are computed reaches them by a file
# that is no input of theirs, so that it makes nothing again.
EXECUTION = f"{WORK}/execution"
DEVICE = PROFILE.execution.device
# Jobs that ask for a GPU share those of the machine,
# `trainings_per_gpu` on each; on the CPU no job waits.
GPU = int(uses_gpus(PROFILE.execution))
os.environ[SHARED] = str(PROFILE.execution.trainings_per_gpu)
if "gpu" not in workflow.global_resources:  # --resources gpu=N says otherwise
    workflow.register_resource("gpu", max(1, len(devices())) * PROFILE.execution.trainings_per_gpu)


wildcard_constraints:
    **dict.fromkeys(
        ["dataset", "subset", "features", "language_model", "model", "recipe"], "[^/@]+"
    ),
    **dict.fromkeys(["table", "study"], "[^/]+"),
    seed="-?[0-9]+",
    seeds="[-+0-9]+",
    stage="xe|scst",


def as_json(value):
    """Return a spec as a parameter that Snakemake compares.

    Its ``file``, written now, is what the command is given.
    """
    return SpecText.written(value, Path(WORK) / "specs")


def table_code(*starts):
    """Return the digest of what makes tables and pages: the source and their templates."""
    templates = sorted(Path(sys.modules["recap"].__file__).parent.glob("*/templates/*"))
    return value_hash([code_digest(*starts), *(file.read_text() for file in templates)])[:16]


def may_grow(stores, made=None, params=(), w=None):
    """Return stores as inputs whose times do not count: one that grows makes no run again."""
    # Notes of extractors, inputs too, change with their numbers. While a store grows, Snakemake
    # compares no parameters of what is behind it, so what was `made` with others has it as a usual
    # input.
    recorded = read_record(made).get("params") if made else None
    changed = recorded is not None and not {repr(value(w)) for value in params} <= set(recorded)
    return stores if changed else [ancient(store) for store in stores]


def shown(file, category):
    """Mark a page or a picture as a result of `snakemake --report`; return others unchanged."""
    return report(file, category=category) if file.endswith((".html", ".png")) else file


def option(name):
    """Return the parameter `--name=FILE` for each input of that name, which may be none."""
    return lambda w, input: [f"--{name}={file}" for file in input[name]]


def folders(name):
    """Return the parameter of the folders of the inputs of a name."""
    return lambda w, input: [str(Path(file).parent) for file in input[name]]
