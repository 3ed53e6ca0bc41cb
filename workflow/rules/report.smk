"""What a reader sees beside tables: samples, figures, the report, and runs in MLflow."""

STORE = "mlflow/mlflow.db"


rule samples:
    input:
        unpack(inputs("samples")),
    output:
        **outputs("samples", category="Samples"),
    log:
        f"{LOGS}/samples/{{table}}.log",
    params:
        **params("samples"),
        out=subpath(output.md, parent=True),
    shell:
        "{RECAP} --log-file {log:q} run-step recap.tables.samples:write_samples"
        " --spec {params.spec.file:q} --name {wildcards.table:q} --corpus-path {input.corpus:q}"
        " --image-roots {input.images:q} --scores-root {params.scores:q} --out {params.out:q}"
        " --count {params.number}"


for RULE in sorted({each.rule for each in JOBS.with_prefix("figure_")}):

    rule:
        name:
            RULE
        input:
            unpack(inputs(RULE)),
        output:
            **outputs(RULE, category="Figures"),
        log:
            f"{LOGS}/figure/{RULE.removeprefix('figure_')}.log",
        localrule: True
        params:
            **params(RULE),
        shell:
            "{RECAP} --log-file {log:q} report figure --spec {params.spec.file:q}"
            " --corpus {input.corpus:q} --vocabulary {input.vocabulary:q}"
            " {params.features} {input.features:q} {params.images} {input.images:q}"
            " --texts {input.texts:q} --runs {params.runs:q} --labels {params.labels:q}"
            " --heading {params.heading:q} --out {params.out:q}"


rule sweep:
    input:
        unpack(inputs("sweep")),
    output:
        **outputs("sweep", category="Figures"),
    log:
        f"{LOGS}/sweep/{{figure}}.log",
    params:
        **params("sweep"),
    shell:
        "{RECAP} --log-file {log:q} run-step recap.report.figures:write_sweep"
        " --spec {params.spec.file:q} --statistics {params.statistics:q} --out {output.csv:q}"
        " --png {output.png:q}"


rule summary:
    input:
        unpack(inputs("summary")),
    output:
        **outputs("summary"),
    log:
        f"{LOGS}/summary.log",
    params:
        **params("summary"),
    shell:
        "{RECAP} --log-file {log:q} run-step recap.report.figures:write_summary"
        " --spec {params.spec.file:q} --scores {params.scores:q} --out {output:q}"


rule curves:
    input:
        unpack(inputs("curves")),
    output:
        **outputs("curves", category="Figures"),
    log:
        f"{LOGS}/curves.log",
    params:
        **params("curves"),
    shell:
        "{RECAP} --log-file {log:q} run-step recap.report.figures:write_curves"
        " --spec {params.spec.file:q} --runs {params.runs:q} --out {output.csv:q}"
        " --figure {output.png:q}"


rule report_page:
    input:
        unpack(inputs("report_page")),
    output:
        **outputs("report_page", category="Report"),
    log:
        f"{LOGS}/report_page.log",
    params:
        **params("report_page"),
    shell:
        "{RECAP} --log-file {log:q} report make {params.spec.file:q} --params {PLAN.params:q}"
        " --inputs {PROFILE.inputs:q} > /dev/null"


rule track_init:
    """Prepare the store once: processes that meet in a fresh one break it for good."""
    output:
        touch("mlflow/ready"),
    log:
        f"{LOGS}/track_init.log",
    shell:
        "{RECAP} --log-file {log:q} run-step recap.share.tracking_store:init_store"
        " --store {STORE:q}"


rule publish:
    input:
        unpack(inputs("publish")),
        ready=ancient("mlflow/ready"),
    output:
        **outputs("publish"),
    log:
        f"{LOGS}/publish.log",
    params:
        **params("publish"),
    shell:
        "{RECAP} --log-file {log:q} run-step recap.share.tracking_store:publish"
        " --profile {PROFILE.name:q} --results {params.results:q} --store {STORE:q}"
        " --out {output:q}"
