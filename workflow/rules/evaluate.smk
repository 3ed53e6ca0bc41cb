"""Captions of the test split by beam search, and their scores per image and per corpus."""


def evaluate_spec(wildcards):
    """Return how a run's captions are decoded and scored."""
    return as_json(plain(evaluation_spec(PLAN, wildcards.recipe)))


def evaluation_code(wildcards):
    """Return the digest of decoding with a model and of the metrics that its recipe asks for."""
    metrics = PLAN.recipe(wildcards.recipe).evaluation.metrics
    return job_code(EVALUATION, PLAN.get("models", wildcards.model).kind, metrics=metrics)


def products(wildcards):
    """Return what the metrics of a run read beside the corpus."""
    metrics = map(METRICS.get, PLAN.recipe(wildcards.recipe).evaluation.metrics)
    return [f"{R}/data/{wildcards.dataset}/{name}" for metric in metrics for name in metric.products]


rule evaluate:
    input:
        products,
        corpus=f"{R}/data/{{dataset}}/corpus.parquet",
        vocabulary=f"{R}/data/{{dataset}}/vocabulary.json",
        features=features_files,
        model=lambda wildcards: weights_file(as_run(wildcards)),
    output:
        captions=f"{R}/scores/{RUN}/{{stage}}/captions.test.json",
        scores=f"{R}/scores/{RUN}/{{stage}}/scores.test.parquet",
        metrics=f"{R}/scores/{RUN}/{{stage}}/metrics.json",
    log:
        f"{LOGS}/evaluate/{RUN}/{{stage}}.log",
    threads: lambda wildcards: execution(PLAN, wildcards.recipe).threads
    resources:
        gpu=GPU,
    params:
        spec=evaluate_spec,
        code=evaluation_code,
        model=subpath(input.model, parent=True),
        out=subpath(output.metrics, parent=True),
    shell:
        "{RECAP} --log-file {log:q}"
        " evaluate --spec {params.spec.file:q} --execution {EXECUTION:q}/{wildcards.recipe:q}.yaml"
        " --corpus {input.corpus:q} --vocabulary {input.vocabulary:q}"
        " --features {input.features:q} --model {params.model:q} --out {params.out:q}"


ENSEMBLE_RUN = f"{RUN.removesuffix('seed-{seed}')}ensemble-{{seeds}}/{{stage}}"
ENSEMBLE = f"{R}/scores/{ENSEMBLE_RUN}"


def members(wildcards):
    """Return the weights of an ensemble's members."""
    return [weights_file(as_run(wildcards, seed=int(seed))) for seed in wildcards.seeds.split("+")]


use rule evaluate as evaluate_ensemble with:
    input:
        products,
        corpus=f"{R}/data/{{dataset}}/corpus.parquet",
        vocabulary=f"{R}/data/{{dataset}}/vocabulary.json",
        features=features_files,
        model=members,
    output:
        captions=f"{ENSEMBLE}/captions.test.json",
        scores=f"{ENSEMBLE}/scores.test.parquet",
        metrics=f"{ENSEMBLE}/metrics.json",
    log:
        f"{LOGS}/evaluate/{ENSEMBLE_RUN}.log",
    params:
        spec=evaluate_spec,
        code=evaluation_code,
        model=lambda wildcards, input: [str(Path(file).parent) for file in input.model],
        out=subpath(output.metrics, parent=True),
