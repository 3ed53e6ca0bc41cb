"""Tests and intervals of one table, from the per-image and per-run scores of its rows."""

from recap.plan.jobs import table_spec, training_files, trainings
from recap.plan.outside_rows import scored_files
from recap.plan.selections import selection_files, selection_spec
from recap.plan.source import code_digest
from recap.plan.submissions import submissions
from recap.statistics.scores import ANSWER, sent_captions

SELECTIONS = f"{R}/statistics/selections"


def sampled_spec(wildcards):
    """Return a table with its seeds and recipes."""
    return as_json(table_spec(PLAN, table_id(wildcards)))


def compared_spec(wildcards):
    """Return a table with its seeds, recipes, and the trainings behind its columns."""
    found = {"trainings": trainings(PLAN, table_id(wildcards)), "server": server_folders(wildcards)}
    return as_json({**table_spec(PLAN, table_id(wildcards)), **{key: value for key, value in found.items() if value}})


def server_folders(wildcards):
    """Return path of a scored run -> folder of what COCO's server is sent of it."""
    sent = submissions(PLAN, table_id(wildcards))
    return {each.run.path: PATHS.submission(each.algorithm) for each in sent}


def server_answers(wildcards):
    """Return the answers of COCO's server that were brought in, and the captions that it scored."""
    folders = [Path(folder) for folder in server_folders(wildcards).values()]
    answered = [folder for folder in folders if (folder / ANSWER).exists()]
    return [str(file) for folder in answered for file in (folder / ANSWER, sent_captions(folder))]


def table_scores(wildcards):
    """Return the score files of a table's rows."""
    outside = [file for each in scored_files(PLAN, table_id(wildcards)) for file in PATHS.outside_scores(each)]
    return [*(file for run in PLAN.table_runs(table_id(wildcards)) for file in PATHS.scores(run)), *outside]


CHOOSING = {name for name, key in TABLE_IDS.items() if PLAN.tables[key].selections}


def selection_records(names):
    """Return the records of tables that choose rows on validation."""
    return [f"{SELECTIONS}/{name}.json" for name in sorted(CHOOSING.intersection(names))]


rule select:
    """Chooses by validation scores alone; the rows' test scores are no input of it."""
    input:
        lambda wildcards: [f"{R}/runs/{file}" for file in selection_files(PLAN, table_id(wildcards))],
    output:
        f"{SELECTIONS}/{{table}}.json",
    log:
        f"{LOGS}/select/{{table}}.log",
    params:
        spec=lambda wildcards: as_json(selection_spec(PLAN, table_id(wildcards))),
        code=code_digest("recap.statistics.compare:write_selections"),
        runs=f"{R}/runs",
    shell:
        "{RECAP} --log-file {log:q} run-step select --spec {params.spec.file:q} --runs {params.runs:q} --out {output:q}"


rule statistics:
    input:
        table_scores,
        server_answers,
        lambda wildcards: [f"{R}/runs/{file}" for file in training_files(PLAN, table_id(wildcards))],
        selection=lambda wildcards: selection_records([wildcards.table]),
    output:
        f"{R}/statistics/{{table}}.json",
    log:
        f"{LOGS}/statistics/{{table}}.log",
    params:
        spec=compared_spec,
        code=code_digest("recap.statistics.compare"),
        scores=f"{R}/scores",
        runs=f"{R}/runs",
        selection=lambda wildcards: "--selection" if wildcards.table in CHOOSING else "",
    shell:
        "{RECAP} --log-file {log:q}"
        " run-step statistics --table {wildcards.table:q} --spec {params.spec.file:q} --scores {params.scores:q}"
        " --runs {params.runs:q} {params.selection} {input.selection:q} --out {output:q}"
