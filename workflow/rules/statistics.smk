"""Tests and intervals of one table, from the per-image and per-run scores of its rows."""


def table_spec(name):
    """Return a table with the seeds of its runs and the recipes it names."""
    recipes = sorted({run.recipe for run in table_runs(name)})
    return {
        "table": PLAN.tables[name].model_dump(mode="json"),
        "seeds": PROFILE.seeds,
        "recipes": {recipe: PLAN.spec("recipes", recipe) for recipe in recipes},
    }


rule statistics:
    input:
        lambda wildcards: [file for run in table_runs(wildcards.table) for file in score_files(run)],
    output:
        f"{R}/statistics/{{table}}.json",
    params:
        spec=lambda wildcards: as_json(table_spec(wildcards.table)),
        code=code_digest("statistics/compare"),
        scores=f"{R}/scores",
    shell:
        "{RECAP} statistics --table {wildcards.table:q} --spec {params.spec.file:q} --scores {params.scores:q} --out {output:q}"
