"""Captions of the test split by beam search, and their scores per image and per corpus."""


def evaluate_spec(wildcards):
    """Return how a run's captions are decoded and scored."""
    return as_json(
        {
            "evaluation": PLAN.spec("recipes", wildcards.recipe)["evaluation"],
            "model_config": PLAN.spec("models", wildcards.model),
            "device": PROFILE.device,
            "threads": PROFILE.threads,
        }
    )


rule evaluate:
    input:
        corpus=f"{R}/data/{{dataset}}/corpus.parquet",
        vocabulary=f"{R}/data/{{dataset}}/vocabulary.json",
        features=features_files,
        model=lambda wildcards: weights_file(as_run(wildcards)),
    output:
        captions=f"{R}/scores/{RUN}/{{stage}}/captions.test.json",
        scores=f"{R}/scores/{RUN}/{{stage}}/scores.test.parquet",
        metrics=f"{R}/scores/{RUN}/{{stage}}/metrics.json",
    params:
        spec=evaluate_spec,
        code=model_code("evaluation/job"),
        model=subpath(input.model, parent=True),
        out=subpath(output.metrics, parent=True),
    threads: PROFILE.threads
    resources:
        gpu=GPU,
    shell:
        "{RECAP} evaluate --spec {params.spec:q} --corpus {input.corpus:q} --vocabulary {input.vocabulary:q}"
        " --features {input.features:q} --model {params.model:q} --out {params.out:q}"


ENSEMBLE = f"{R}/scores/{RUN.removesuffix('seed-{seed}')}ensemble-{{seeds}}/{{stage}}"


def members(wildcards):
    """Return the weights of an ensemble's members."""
    return [weights_file(as_run(wildcards, seed=int(seed))) for seed in wildcards.seeds.split("+")]


use rule evaluate as evaluate_ensemble with:
    input:
        corpus=f"{R}/data/{{dataset}}/corpus.parquet",
        vocabulary=f"{R}/data/{{dataset}}/vocabulary.json",
        features=features_files,
        model=members,
    output:
        captions=f"{ENSEMBLE}/captions.test.json",
        scores=f"{ENSEMBLE}/scores.test.parquet",
        metrics=f"{ENSEMBLE}/metrics.json",
    params:
        spec=evaluate_spec,
        code=model_code("evaluation/job"),
        model=lambda wildcards, input: [str(Path(file).parent) for file in input.model],
        out=subpath(output.metrics, parent=True),
