"""Captions of the test split by beam search, and their scores per image and per corpus."""


def evaluate_spec(wildcards):
    """Return how a run's captions are decoded and scored."""
    return as_json(
        {
            "evaluation": GRID.spec("recipes", wildcards.recipe)["evaluation"],
            "model_config": GRID.spec("models", wildcards.model),
            "seed": int(wildcards.seed),
            "device": PROFILE.device,
            "threads": PROFILE.threads,
        }
    )


rule evaluate:
    input:
        corpus=f"{R}/data/{{dataset}}/corpus.parquet",
        vocabulary=f"{R}/data/{{dataset}}/vocabulary.json",
        features=f"{R}/features/{{dataset}}/{{features}}.h5",
        model=f"{R}/runs/{RUN}/{{stage}}/model.safetensors",
    output:
        captions=f"{R}/scores/{RUN}/{{stage}}/captions.test.json",
        scores=f"{R}/scores/{RUN}/{{stage}}/scores.test.parquet",
        metrics=f"{R}/scores/{RUN}/{{stage}}/metrics.json",
    params:
        spec=evaluate_spec,
        code=model_code("training/evaluation"),
        model=subpath(input.model, parent=True),
        out=subpath(output.metrics, parent=True),
    threads: PROFILE.threads
    resources:
        gpu=GPU,
    shell:
        "{RECAP} evaluate --spec {params.spec:q} --corpus {input.corpus:q} --vocabulary {input.vocabulary:q}"
        " --features {input.features:q} --model {params.model:q} --out {params.out:q}"
