"""MLflow: a view of what the jobs wrote, which may be deleted at any time and is made again from the results."""

from recap.plan.source import code_digest

STORE = "mlflow/mlflow.db"
PUBLISHED = f"mlflow/{PROFILE.name}.published.json"


rule track_init:
    """Prepare the store once: processes that meet in a fresh one break it for good."""
    output:
        touch("mlflow/ready"),
    log:
        f"{LOGS}/track_init.log",
    shell:
        "{RECAP} --log-file {log:q}" " run-step track-init --store {STORE:q}"


rule publish:
    input:
        [file for run in TRAINED for file in PATHS.run(run)],
        [file for run in SCORED for file in PATHS.scores(run)],
        [f"{R}/statistics/{table}.json" for table in TABLE_IDS],
        reader_files(),
        sorted({PATHS.card(run) for run in SCORED}),
        ready=ancient("mlflow/ready"),
    output:
        PUBLISHED,
    log:
        f"{LOGS}/publish.log",
    params:
        code=code_digest("recap.share.tracking_store"),
        results=R,
        reports=REPORTS,
    shell:
        "{RECAP} --log-file {log:q}"
        " run-step publish --profile {PROFILE.name:q} --results {params.results:q} --reports {params.reports:q}"
        " --store {STORE:q} --out {output:q}"
