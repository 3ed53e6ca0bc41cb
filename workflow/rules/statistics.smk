"""Tables: tests and intervals from the scores of their rows, in all formats."""


rule select:
    """Chooses by validation scores alone; the rows' test scores are no input of it."""
    input:
        unpack(inputs("select")),
    output:
        **outputs("select"),
    log:
        f"{LOGS}/select/{{table}}.log",
    params:
        **params("select"),
    shell:
        "{RECAP} --log-file {log:q} run-step recap.statistics.compare:write_selections"
        " --spec {params.spec.file:q} --runs {params.runs:q} --out {output:q}"


rule statistics:
    input:
        unpack(inputs("statistics")),
    output:
        **outputs("statistics"),
    log:
        f"{LOGS}/statistics/{{table}}.log",
    params:
        **params("statistics"),
    shell:
        "{RECAP} --log-file {log:q} run-step recap.statistics.compare:compare_table"
        " --spec {params.spec.file:q} --name {wildcards.table:q} --scores-root {params.scores:q}"
        " {params.selection} {input.selection:q} --statistics-out {output:q}"


rule table:
    input:
        unpack(inputs("table")),
    output:
        **outputs("table", category="Tables"),
    log:
        f"{LOGS}/table/{{table}}.log",
    params:
        **params("table"),
        out=subpath(output.tex, parent=True),
    shell:
        "{RECAP} --log-file {log:q} run-step recap.cli.steps:table --spec {params.spec.file:q}"
        " --statistics {input:q} --out {params.out:q}"


rule claims:
    input:
        unpack(inputs("claims")),
    output:
        **outputs("claims", category="Claims"),
    log:
        f"{LOGS}/claims.log",
    localrule: True
    params:
        **params("claims"),
        out=subpath(output.md, parent=True),
    shell:
        "{RECAP} --log-file {log:q} run-step recap.cli.steps:claims --spec {params.spec.file:q}"
        " --scores {params.scores:q} --out {params.out:q}"
