"""Training: cross-entropy, self-critical from its best weights, and language models on texts."""


rule language_model:
    input:
        unpack(inputs("language_model")),
    output:
        **outputs("language_model"),
    log:
        f"{LOGS}/language_model/{{dataset}}/{{language_model}}.log",
    threads: lambda w: job("language_model", w).threads
    resources:
        **STOPPED_BEFORE_LIMIT,
        gpu=lambda w: job("language_model", w).gpus,
    params:
        **params("language_model"),
    shell:
        "{RECAP} --log-file {log:q} pretrain-lm --spec {params.spec.file:q}"
        " --corpus {input.corpus:q} --vocabulary {input.vocabulary:q} --inputs {PROFILE.inputs:q}"
        " --device {DEVICE} --threads {threads} --state {params.state:q} --out {output.weights:q}"


rule train_xe:
    input:
        unpack(inputs("train_xe")),
    output:
        **outputs("train_xe"),
    log:
        f"{LOGS}/train_xe/{RUN}.log",
    # The longest jobs first, so that no core waits for the last of them.
    priority: 1
    threads: lambda w: job("train_xe", w).threads
    resources:
        **STOPPED_BEFORE_LIMIT,
        gpu=lambda w: job("train_xe", w).gpus,
    params:
        **params("train_xe", options=["weights"]),
        out=subpath(output.model, parent=True),
    shell:
        "{RECAP} --log-file {log:q} train --spec {params.spec.file:q}"
        " --execution {EXECUTION:q}/{wildcards.recipe:q}.yaml --corpus {input.corpus:q}"
        " --vocabulary {input.vocabulary:q} --subset {input.subset:q} --features {input.features:q}"
        " {params.weights:q} --state {params.state:q} --out {params.out:q}"


rule train_scst:
    input:
        unpack(inputs("train_scst")),
    output:
        **outputs("train_scst"),
    log:
        f"{LOGS}/train_scst/{RUN}.log",
    threads: lambda w: job("train_scst", w).threads
    resources:
        **STOPPED_BEFORE_LIMIT,
        gpu=lambda w: job("train_scst", w).gpus,
    params:
        **params("train_scst"),
        init=lambda w, input: str(Path(input.init[0]).parent),
        out=subpath(output.model, parent=True),
    shell:
        "{RECAP} --log-file {log:q} train --spec {params.spec.file:q}"
        " --execution {EXECUTION:q}/{wildcards.recipe:q}.yaml --corpus {input.corpus:q}"
        " --vocabulary {input.vocabulary:q} --subset {input.subset:q} --features {input.features:q}"
        " --init {params.init:q} --state {params.state:q} --out {params.out:q}"
