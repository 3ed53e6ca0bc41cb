"""Language models on texts without pictures, for models whose settings name one as their weights."""


def language_model_files():
    """Return the language models of all runs, with their reports."""
    found = {file for run in SCORED for file in pretrained_weights(run) if file.startswith(f"{R}/")}
    return sorted(found | {str(Path(file).with_suffix(".json")) for file in found})


rule language_model:
    input:
        corpus=f"{R}/data/{{dataset}}/corpus.parquet",
        vocabulary=f"{R}/data/{{dataset}}/vocabulary.json",
        texts=lambda wildcards: text_inputs(wildcards.language_model),
    output:
        weights=LANGUAGE_MODEL_FILE,
        report=str(Path(LANGUAGE_MODEL_FILE).with_suffix(".json")),
    log:
        f"{LOGS}/language_model/{{dataset}}/{{language_model}}.log",
    threads: 2
    resources:
        gpu=GPU,
    params:
        spec=lambda wildcards: as_json(PLAN.spec("language_models", wildcards.language_model)),
        code=code_digest("recap.training.language_model"),
        # The full state survives a killed job, which declared outputs would not.
        state=f"{WORK}/language_models/{{dataset}}/{{language_model}}",
    shell:
        "{RECAP} --log-file {log:q}"
        " pretrain-lm --spec {params.spec.file:q} --corpus {input.corpus:q} --vocabulary {input.vocabulary:q}"
        " --inputs {PROFILE.inputs:q} --device {DEVICE} --threads {threads} --state {params.state:q} --out {output.weights:q}"
