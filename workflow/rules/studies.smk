"""Human studies: forms of all raters from test captions, and the tables of what they answered."""


rule study_sheets:
    input:
        unpack(inputs("study_sheets")),
    output:
        **outputs("study_sheets"),
    log:
        f"{LOGS}/study_sheets/{{study}}.log",
    params:
        **params("study_sheets"),
        out=subpath(output[0], parent=True),
    shell:
        "{RECAP} --log-file {log:q} study sheets --spec {params.spec.file:q}"
        " --captions {params.captions:q} --corpus {input.corpus:q} --images {input.images:q}"
        " --out {params.out:q}"


rule study_simulate:
    input:
        unpack(inputs("study_simulate")),
    output:
        **outputs("study_simulate"),
    log:
        f"{LOGS}/study_simulate/{{study}}.log",
    params:
        **params("study_simulate"),
    shell:
        "{RECAP} --log-file {log:q} study simulate --sheets {input:q} --out {output:q}"


rule study_import:
    input:
        unpack(inputs("study_import")),
    output:
        **outputs("study_import"),
    log:
        f"{LOGS}/study_import/{{study}}.log",
    params:
        **params("study_import"),
    shell:
        "{RECAP} --log-file {log:q} study import --sheets {input.sheets:q}"
        " --responses {input.responses:q} --out {output:q}"


rule study_analysis:
    input:
        unpack(inputs("study_analysis")),
    output:
        **outputs("study_analysis", category="Human studies"),
    log:
        f"{LOGS}/study_analysis/{{study}}.log",
    params:
        **params("study_analysis"),
        out=subpath(output.tex, parent=True),
    shell:
        "{RECAP} --log-file {log:q} study analyse --sheets {input.sheets:q}"
        " --responses {input.responses:q} --statistics {output.statistics:q} --out {params.out:q}"
