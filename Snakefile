"""The workflow: from raw photos and captions to tables with p-values.

Rules only wire files to `recap` commands. Every number of an experiment comes from the params
folder and is passed as a parameter of its rule, so that changing one reruns exactly what depends
on it.
"""

import gc
import os
import sys
from pathlib import Path

import snakemake_logger_plugin_recap as messages
from snakemake.logging import logger
from snakemake.utils import min_version

# Snakemake puts these folders before all others;
# as the last ones, no file in them is taken for an installed module.
for folder in (workflow.basedir, f"{workflow.basedir}/workflow/rules"):
    sys.path[:] = [*(each for each in sys.path if each != folder), folder]

from recap.core.log import FAILURES_VARIABLE, configure
from recap.plan.job import outputs_of
from recap.plan.jobs import EVALUATIONS, data_files, feature_files, kept_files

from workflow.internals import input_of_the_future, pending_jobs
from workflow.load import install_spice, pickle_plan
from workflow.linked_files import make_writable, restore_times
from workflow.reasons import pending_runs_text
from workflow.stopping import cancel_left_jobs, lock_folder, stop_with_cluster, stop_with_jobs

min_version("9.27")
configure()
# A plan makes millions of objects that stay,
# which Python would search for garbage again and again: an eighth of its time.
gc.set_threshold(200_000, 20, 50)
# Where jobs record why they failed; their messages are about this workflow then.
os.environ[FAILURES_VARIABLE] = str(Path(".snakemake/failures").absolute())

# A profile given with --configfile takes the demo's place;
# Snakemake would lay it over the demo instead.
if not {"name", "tables"} & set(config):

    configfile: "params/demo.yaml"


# They take seconds, and a cluster a minute to begin a job: they run where Snakemake runs.
workflow.localrules(
    *(
        "all",
        "kept_all",
        "data_all",
        "features_all",
        "train_all",
        "evaluate_all",
    ),
    *(
        "wanted_rows",
        "subset",
        "used_images",
        "vocabulary",
        "card",
        "submission",
        "select",
        "statistics",
    ),
    *("table", "samples", "sweep", "summary", "curves", "report_page", "track_init", "publish"),
    *("study_sheets", "study_simulate", "study_import", "study_analysis"),
)


include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/features.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/evaluate.smk"
include: "workflow/rules/statistics.smk"
include: "workflow/rules/studies.smk"
include: "workflow/rules/report.smk"


if workflow.is_main_process:
    make_writable([R, REPORTS])
    restore_times([R, REPORTS])


messages.introduce(LABELS, lambda: pending_runs_text(pending_jobs(workflow), LABELS))


onstart:
    lock_folder(R, WORK, REPORTS, "mlflow")
    if file := input_of_the_future(workflow):
        refuse(
            f"{file}: is dated later than this machine's clock; "
            f"set the clock, or run: touch {quote(file)}"
        )
    install_spice(pending_jobs(workflow), PLANNED)
    if workflow.local_exec:
        stop_with_jobs()
    else:
        cancel_left_jobs()
        pickle_plan(PLANNED)
        stop_with_cluster()
    if lines := pending_runs_text(pending_jobs(workflow), LABELS):
        logger.info("\n".join([*lines, ""]), extra=messages.PASS_ON)


rule all:
    default_target: True
    input:
        kept_files(JOBS),
        outputs_of(JOBS.of("publish")),


rule kept_all:
    input:
        kept_files(JOBS),


rule data_all:
    input:
        data_files(JOBS),


rule features_all:
    input:
        feature_files(JOBS),


rule train_all:
    input:
        outputs_of(JOBS.of("train_xe", "train_scst")),


rule evaluate_all:
    input:
        outputs_of(JOBS.of(*EVALUATIONS)),
