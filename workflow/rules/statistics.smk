"""Tests and intervals of one table, from the per-image and per-run scores of its rows."""

from recap.plan.run_columns import training_files, trainings


def table_spec(wildcards):
    """Return a table with the seeds of its runs and the recipes it names."""
    name = table_id(wildcards)
    recipes = sorted({run.recipe for run in PLAN.table_runs(name)})
    return {
        "table": PLAN.tables[name].model_dump(mode="json"),
        "seeds": PLAN.seeds[name],
        "recipes": {recipe: PLAN.spec("recipes", recipe) for recipe in recipes},
    }


def compared_spec(wildcards):
    """Return the spec of a table's statistics."""
    found = trainings(PLAN, table_id(wildcards))
    return {**table_spec(wildcards), **({"trainings": found} if found else {})}


def table_scores(wildcards):
    """Return the score files of a table's rows."""
    return [file for run in PLAN.table_runs(table_id(wildcards)) for file in score_files(run)]


rule statistics:
    input:
        table_scores,
        lambda wildcards: [f"{R}/runs/{file}" for file in training_files(PLAN, table_id(wildcards))],
    output:
        f"{R}/statistics/{{table}}.json",
    log:
        f"{LOGS}/statistics/{{table}}.log",
    params:
        spec=lambda wildcards: as_json(compared_spec(wildcards)),
        code=code_digest("recap.statistics.compare"),
        scores=f"{R}/scores",
        runs=f"{R}/runs",
    shell:
        "{RECAP} --log-file {log:q}"
        " statistics --table {wildcards.table:q} --spec {params.spec.file:q} --scores {params.scores:q}"
        " --runs {params.runs:q} --out {output:q}"
