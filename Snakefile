"""The workflow: from raw photos and captions to tables with p-values.

    snakemake --cores all                                                        the demo (params/demo.yaml)
    snakemake --cores all --configfile params/flickr8k.yaml --config inputs=DIR  another profile

Rules only wire files to `recap` commands. Every number of an experiment comes from the params folder and is passed as a
parameter of its rule, so that changing one reruns exactly what depends on it.
"""

import gc
import os
import sys
from pathlib import Path

import snakemake_logger_plugin_recap as messages
from snakemake.logging import logger
from snakemake.utils import min_version

# Snakemake puts these folders before all others; as the last ones, no file in them is taken for an installed module.
for folder in (workflow.basedir, f"{workflow.basedir}/workflow/rules"):
    sys.path[:] = [*(each for each in sys.path if each != folder), folder]

from recap.plan.inputs import data_files, feature_files
from recap.plan.submissions import TEST, VAL

from workflow.cluster import cancel_left_jobs, stop_with_cluster
from workflow.folder_lock import lock_folder
from workflow.plan import dated_later, due_jobs, due_runs
from workflow.planned import pass_on
from workflow.stopping import stop_with_jobs

from recap.core.log import configure
from recap.core.log import FAILURES_VARIABLE

min_version("9.27")
configure()
# A plan makes millions of objects that stay, which Python would search for garbage again and again: an eighth of its time.
gc.set_threshold(200_000, 20, 50)
# Where jobs record why they failed; their messages are about this workflow then.
os.environ[FAILURES_VARIABLE] = str(Path(".snakemake/failures").absolute())

# A profile given with --configfile takes the demo's place; Snakemake would lay it over the demo instead.
if not {"name", "tables"} & set(config):

    configfile: "params/demo.yaml"


# They take seconds, and a cluster a minute to begin a job: they run where Snakemake runs.
localrules:
    all,
    kept_all,
    save_provenance,
    data_all,
    features_all,
    train_all,
    evaluate_all,
    wanted_rows,
    subset,
    unpaired,
    used_images,
    vocabulary,
    card,
    submission,
    select,
    statistics,
    table,
    samples,
    sweep,
    summary,
    curves,
    report_page,
    study_sheets,
    study_simulate,
    study_import,
    study_analysis,
    track_init,
    publish,


include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/subsample.smk"
include: "workflow/rules/features.smk"
include: "workflow/rules/language_models.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/evaluate.smk"
include: "workflow/rules/server.smk"
include: "workflow/rules/statistics.smk"
include: "workflow/rules/report.smk"
include: "workflow/rules/studies.smk"
include: "workflow/rules/page.smk"
include: "workflow/rules/track.smk"
include: "workflow/rules/provenance.smk"


def due():
    """Return a line for each run that is due."""
    return due_runs(due_jobs(workflow), LABELS)


messages.introduce(LABELS, due)


onstart:
    lock_folder(R, WORK, REPORTS, "mlflow")
    if file := dated_later(workflow):
        refuse(f"{file}: is dated later than this machine's clock; set the clock, or run: touch {quote(file)}")
    install_spice()
    if workflow.local_exec:
        stop_with_jobs()
    else:
        cancel_left_jobs()
        pass_on(PLAN, ACQUIRED, NEEDS.costs.parameters)
        stop_with_cluster()
    if lines := due():
        logger.info("\n".join([*lines, ""]), extra=messages.PASS_ON)


onsuccess:
    PROVENANCE.save()


onerror:
    PROVENANCE.save()


def kept_files():
    """Return by name every file that DVC keeps, so that one that got lost is missed, also under a finished report."""
    trained = [file for run in TRAINED for file in PATHS.run(run)]
    scored = [file for run in SCORED for file in PATHS.scores(run)]
    scored += [file for each in PLAN.scored_files() for file in PATHS.outside_scores(each)]
    return [
        *report_files(),
        *study_files(),
        *server_files(),
        *data_files(PATHS),
        *feature_files(PATHS),
        *selection_records(TABLE_IDS),
        *trained,
        *scored,
    ]


rule all:
    default_target: True
    input:
        kept_files(),
        PUBLISHED,


rule kept_all:
    input:
        kept_files(),


rule save_provenance:
    """It has no output: what follows every run that did something is all that it is for."""
    shell:
        "true"


rule data_all:
    input:
        data_files(PATHS),


rule features_all:
    input:
        feature_files(PATHS),


rule train_all:
    input:
        [file for run in TRAINED for file in PATHS.run(run)],


rule evaluate_all:
    input:
        [file for run in SCORED for file in PATHS.scores(run)],
        [file for each in PLAN.scored_files() for file in PATHS.outside_scores(each)],
        [PATHS.captions_of(each.run, part) for each in PLAN.submissions() for part in (VAL, TEST)],
