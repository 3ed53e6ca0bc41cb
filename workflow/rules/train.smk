"""Training: cross-entropy, then self-critical from the best cross-entropy weights."""


def train_spec(stage):
    """Return the function that gives the spec of one stage of a run."""

    def spec(wildcards):
        return as_json(plain(run_spec(PLAN, as_run(wildcards, stage=stage))))

    return spec


def processes(wildcards):
    """Return how many processes train a run together; `recap train` starts them by torchrun."""
    return PLAN.recipe(wildcards.recipe).processes


def all_threads(wildcards):
    """Return the CPU threads of all processes of a training."""
    return processes(wildcards) * execution(PLAN, wildcards.recipe).threads


def all_gpus(wildcards):
    """Return the GPUs of all processes of a training: one each, where there are any."""
    return processes(wildcards) * GPU


rule train_xe:
    input:
        corpus=f"{R}/data/{{dataset}}/corpus.parquet",
        vocabulary=f"{R}/data/{{dataset}}/vocabulary.json",
        subset=f"{R}/data/{{dataset}}/subsets/{{subset}}/seed-{{seed}}.json",
        features=features_files,
        weights=lambda wildcards: pretrained_weights(as_run(wildcards)),
    output:
        config=f"{R}/runs/{RUN}/xe/config.yaml",
        model=f"{R}/runs/{RUN}/xe/model.safetensors",
        history=f"{R}/runs/{RUN}/xe/history.csv",
        training=f"{R}/runs/{RUN}/xe/training.json",
    log:
        f"{LOGS}/train_xe/{RUN}.log",
    # The longest jobs first, so that no core waits for the last of them.
    priority: 1
    threads: all_threads
    resources:
        gpu=all_gpus,
    params:
        spec=train_spec("xe"),
        code=model_code(TRAINING),
        out=subpath(output.model, parent=True),
        weights=lambda wildcards, input: [f"--weights={file}" for file in input.weights],
        # The full state survives a killed job, which declared outputs would not: the same command resumes from it.
        state=f"{WORK}/{RUN}/xe",
    shell:
        "{RECAP} --log-file {log:q}"
        " train --spec {params.spec.file:q} --execution {EXECUTION:q}/{wildcards.recipe:q}.yaml"
        " --corpus {input.corpus:q} --vocabulary {input.vocabulary:q}"
        " --subset {input.subset:q} --features {input.features:q} {params.weights:q} --state {params.state:q}"
        " --out {params.out:q}"


rule train_scst:
    input:
        corpus=f"{R}/data/{{dataset}}/corpus.parquet",
        vocabulary=f"{R}/data/{{dataset}}/vocabulary.json",
        subset=f"{R}/data/{{dataset}}/subsets/{{subset}}/seed-{{seed}}.json",
        features=features_files,
        init=lambda wildcards: f"{R}/runs/{PLAN.first_stage(as_run(wildcards)).path}/model.safetensors",
    output:
        config=f"{R}/runs/{RUN}/scst/config.yaml",
        model=f"{R}/runs/{RUN}/scst/model.safetensors",
        history=f"{R}/runs/{RUN}/scst/history.csv",
        training=f"{R}/runs/{RUN}/scst/training.json",
    log:
        f"{LOGS}/train_scst/{RUN}.log",
    threads: all_threads
    resources:
        gpu=all_gpus,
    params:
        spec=train_spec("scst"),
        code=model_code(TRAINING),
        init=subpath(input.init, parent=True),
        out=subpath(output.model, parent=True),
        state=f"{WORK}/{RUN}/scst",
    shell:
        "{RECAP} --log-file {log:q}"
        " train --spec {params.spec.file:q} --execution {EXECUTION:q}/{wildcards.recipe:q}.yaml"
        " --corpus {input.corpus:q} --vocabulary {input.vocabulary:q}"
        " --subset {input.subset:q} --features {input.features:q} --init {params.init:q} --state {params.state:q}"
        " --out {params.out:q}"
