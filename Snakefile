"""The workflow: from raw photos and captions to tables with p-values.

    snakemake --cores all                                                        the demo (params/demo.yaml)
    snakemake --cores all --configfile params/flickr8k.yaml --config inputs=DIR  another profile

Rules only wire files to `recap` commands. Every number of an experiment comes from the params folder and is passed as a
parameter of its rule, so that changing one reruns exactly what depends on it.
"""

import sys

from snakemake.utils import min_version

# Snakemake puts these folders before all others; as the last ones, no file in them is taken for an installed module.
for folder in (workflow.basedir, f"{workflow.basedir}/workflow/rules"):
    sys.path[:] = [*(each for each in sys.path if each != folder), folder]

from workflow.folder_lock import lock_when_started
from workflow.messages import install as speak_of_runs
from workflow.stopping import stop_before_jobs, stop_with_jobs

min_version("9.0")
stop_before_jobs(workflow)
speak_of_runs(workflow, lambda: LABELS)

# A profile given with --configfile takes the demo's place; Snakemake would lay it over the demo instead.
if not {"name", "tables"} & set(config):

    configfile: "params/demo.yaml"


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/subsample.smk"
include: "workflow/rules/features.smk"
include: "workflow/rules/language_models.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/evaluate.smk"
include: "workflow/rules/statistics.smk"
include: "workflow/rules/report.smk"
include: "workflow/rules/studies.smk"
include: "workflow/rules/track.smk"
include: "workflow/rules/provenance.smk"


lock_when_started(workflow, [R, WORK, REPORTS, "mlflow"])


onstart:
    stop_with_jobs(workflow)


onsuccess:
    KEEPER.save()


onerror:
    KEEPER.save()


def kept_files():
    """Return by name every file that DVC keeps, so that one that got lost is missed, also under a finished report."""
    trained = [file for run in TRAINED for file in run_files(run)]
    scored = [file for run in SCORED for file in score_files(run)]
    return [*report_files(), *study_files(), *data_files(), *kept_features(), *trained, *scored]


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
        data_files(),


rule features_all:
    input:
        kept_features(),


rule train_all:
    input:
        [file for run in TRAINED for file in run_files(run)],


rule evaluate_all:
    input:
        [file for run in SCORED for file in score_files(run)],
