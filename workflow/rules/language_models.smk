"""Language models on texts without pictures, for models whose settings name one as their weights."""

from recap.plan.source import code_digest

LANGUAGE_MODEL_FILE = PATHS.language_model("{dataset}", "{language_model}")


def texts_of(wildcards):
    """Return the outside files of a language model's texts."""
    return PATHS.outside_files("language_models", wildcards.language_model)


rule language_model:
    input:
        corpus=f"{R}/data/{{dataset}}/corpus.parquet",
        vocabulary=f"{R}/data/{{dataset}}/vocabulary.json",
        texts=texts_of,
    output:
        weights=LANGUAGE_MODEL_FILE,
        report=str(Path(LANGUAGE_MODEL_FILE).with_suffix(".json")),
    log:
        f"{LOGS}/language_model/{{dataset}}/{{language_model}}.log",
    threads: 2
    resources:
        **limits(NEEDS.weights),
        **STOPPED_BEFORE_LIMIT,
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
