"""Captions of the test split by beam search, their scores, and what COCO's server is sent."""


rule evaluate:
    input:
        unpack(inputs("evaluate")),
    output:
        **outputs("evaluate"),
    log:
        f"{LOGS}/evaluate/{RUN}/{{stage}}.log",
    threads: lambda w: job("evaluate", w).threads
    resources:
        gpu=lambda w: job("evaluate", w).gpus,
    params:
        **params("evaluate"),
        model=lambda w, input: [str(Path(file).parent) for file in input.model],
        out=subpath(output.metrics, parent=True),
    shell:
        "{RECAP} --log-file {log:q} evaluate --spec {params.spec.file:q}"
        " --execution {EXECUTION:q}/{wildcards.recipe:q}.yaml --corpus {input.corpus:q}"
        " --vocabulary {input.vocabulary:q} --features {input.features:q} --model {params.model:q}"
        " --out {params.out:q}"


use rule evaluate as evaluate_ensemble with:
    input:
        unpack(inputs("evaluate_ensemble")),
    output:
        **outputs("evaluate_ensemble"),
    log:
        f"{LOGS}/evaluate/{SERIES}/ensemble-{{seeds}}/{{stage}}.log",
    threads: lambda w: job("evaluate_ensemble", w).threads
    resources:
        gpu=lambda w: job("evaluate_ensemble", w).gpus,
    params:
        **params("evaluate_ensemble"),
        model=lambda w, input: [str(Path(file).parent) for file in input.model],
        out=subpath(output.metrics, parent=True),


rule score_file:
    input:
        unpack(inputs("score_file")),
    output:
        **outputs("score_file"),
    log:
        f"{LOGS}/score_file/{{outside}}.log",
    params:
        **params("score_file"),
        out=subpath(output.metrics, parent=True),
    shell:
        "{RECAP} --log-file {log:q} score {input.captions:q} --dataset {params.dataset:q}"
        " --corpus {input.corpus:q} --metrics {params.metrics:q} --out {params.out:q} > /dev/null"


rule score_released:
    input:
        unpack(inputs("score_released")),
    output:
        **outputs("score_released"),
    log:
        f"{LOGS}/score_released/{{outside}}.log",
    threads: lambda w: job("score_released", w).threads
    resources:
        gpu=lambda w: job("score_released", w).gpus,
    params:
        **params("score_released"),
        out=subpath(output.metrics, parent=True),
    shell:
        "{RECAP} --log-file {log:q} evaluate --spec {params.spec.file:q}"
        " --execution {EXECUTION:q}/{params.recipe:q}.yaml --corpus {input.corpus:q}"
        " --vocabulary {params.model:q}/vocabulary.json --features {input.features:q}"
        " --model {params.model:q} --out {params.out:q}"


rule server_captions:
    input:
        unpack(inputs("server_captions")),
    output:
        **outputs("server_captions"),
    log:
        f"{LOGS}/server_captions/{{run}}/{{part}}.log",
    threads: lambda w: job("server_captions", w).threads
    resources:
        gpu=lambda w: job("server_captions", w).gpus,
    params:
        **params("server_captions"),
        model=lambda w, input: [str(Path(file).parent) for file in input.model],
    shell:
        "{RECAP} --log-file {log:q} export captions --spec {params.spec.file:q}"
        " --execution {params.execution:q} --part {wildcards.part:q} {params.partial}"
        " --corpus {input.corpus:q} --vocabulary {input.vocabulary:q} --features {input.features:q}"
        " --model {params.model:q} --out {output:q}"


rule submission:
    input:
        unpack(inputs("submission")),
    output:
        **outputs("submission"),
    log:
        f"{LOGS}/submission/{{algorithm}}.log",
    params:
        **params("submission"),
    shell:
        "{RECAP} --log-file {log:q} export coco-server --val {input.val:q} --test {input.test:q}"
        " --algorithm {wildcards.algorithm:q} {params.partial} --out {output.zip:q} > /dev/null"
