"""Captions of every data set as one table, its vocabulary, and subsets of its training captions."""


# Rules only for files that are not there:
# one that is there is the user's, and no rule may touch it.
rule fetch:
    output:
        **outputs("fetch"),
    log:
        f"{LOGS}/fetch/{{file}}.log",
    localrule: True
    params:
        **params("fetch"),
    shell:
        "{RECAP} --log-file {log:q} data fetch {wildcards.file:q} --list {params.list:q}"
        " --into {PROFILE.inputs:q}"


use rule fetch as fetch_to_unpack with:
    output:
        **outputs("fetch_to_unpack", temporary=True),
    params:
        **params("fetch_to_unpack"),


for RULE in sorted({each.rule for each in PLANNED.acquisitions.with_prefix("unpack_")}):

    rule:
        name:
            RULE
        input:
            unpack(inputs(RULE)),
        output:
            **outputs(RULE),
        log:
            f"{LOGS}/unpack/{RULE}.log",
        localrule: True
        params:
            **params(RULE),
        shell:
            "{RECAP} --log-file {log:q} data unpack {params.folder:q} --list {params.list:q}"
            " --into {PROFILE.inputs:q}"


rule wanted_rows:
    """Known before any picture is fetched, because draws go by numbers of rows."""
    input:
        unpack(inputs("wanted_rows")),
    output:
        **outputs("wanted_rows"),
    log:
        f"{LOGS}/wanted_rows/{{pictures}}.log",
    params:
        **params("wanted_rows"),
    shell:
        "{RECAP} --log-file {log:q} data wanted --tsv {input:q} --draws {params.spec.file:q}"
        " --out {output:q}"


rule web_pictures:
    """Finished shards are no outputs: a killed or repeated job goes on from them."""
    input:
        unpack(inputs("web_pictures")),
    output:
        **outputs("web_pictures"),
    log:
        f"{LOGS}/web_pictures/{{pictures}}.log",
    localrule: True
    params:
        **params("web_pictures", options=["only"]),
        out=subpath(output[0], parent=True),
    shell:
        "{RECAP} --log-file {log:q} data conceptual-download --tsv {input.tsv:q}"
        " --out {params.out:q} --min-side {params.min_side} {params.only:q}"


# A rule for each set of files that readers write beside the corpus.
for RULE in sorted({each.rule for each in JOBS.with_prefix("corpus")}):

    rule:
        name:
            RULE
        input:
            unpack(inputs(RULE)),
        output:
            **outputs(RULE),
        log:
            f"{LOGS}/{RULE}/{{dataset}}.log",
        params:
            **params(RULE),
            out=subpath(output.corpus, parent=True),
        shell:
            "{RECAP} --log-file {log:q} data corpus --name {wildcards.dataset:q}"
            " --spec {params.spec.file:q} --inputs {PROFILE.inputs:q} --out {params.out:q}"


rule vocabulary:
    input:
        unpack(inputs("vocabulary")),
    output:
        **outputs("vocabulary"),
    log:
        f"{LOGS}/vocabulary/{{dataset}}.log",
    params:
        **params("vocabulary"),
    shell:
        "{RECAP} --log-file {log:q} data vocabulary --corpus {input.corpus:q}"
        " --spec {params.spec.file:q} --inputs {PROFILE.inputs:q} --out {output:q}"


rule card:
    input:
        unpack(inputs("card")),
    output:
        **outputs("card"),
    log:
        f"{LOGS}/card/{{dataset}}.log",
    params:
        **params("card", options=["counts"]),
    shell:
        "{RECAP} --log-file {log:q} data card --name {wildcards.dataset:q}"
        " --corpus {input.corpus:q} {params.counts:q} --out {output:q}"


rule subset:
    input:
        unpack(inputs("subset")),
    output:
        **outputs("subset"),
    log:
        f"{LOGS}/subset/{{dataset}}/subsets/{{subset}}/seed-{{seed}}.log",
    params:
        **params("subset"),
    shell:
        "{RECAP} --log-file {log:q} run-step recap.data.subsets:draw_subset"
        " --spec {params.spec.file:q} --corpus {input.corpus:q} --name {wildcards.subset:q}"
        " --seed {wildcards.seed} --out {output:q}"
