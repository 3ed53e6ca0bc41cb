"""Training: cross-entropy, self-critical from its best weights, and language models on texts."""

from recap.plan.paths import RUN_FILES
from recap.plan.source import TRAINING

LANGUAGE_MODEL_FILE = PATHS.store("{dataset}", "{language_model}", "language_model.safetensors")


def stage_inputs(stage):
    """Return the function that gives the files that a stage of a run is trained on."""

    def of_run(w):
        run, params = run_named(w, stage=stage), stage_params(stage)
        inputs = PATHS.training_inputs(run)
        stores = may_grow(
            inputs["features"], PATHS.weights(run), [params["spec"], params["code"]], w
        )
        return inputs | {"features": stores}

    return of_run


def stage_outputs(stage):
    return {Path(name).stem: f"{R}/runs/{RUN}/{stage}/{name}" for name in RUN_FILES}


def threads_of(w):
    """Return the CPU threads of all processes of a training, which torchrun starts."""
    return PLAN.recipe(w.recipe).processes * execution(PLAN, w.recipe).threads


TRAINING_RESOURCES = {
    **STOPPED_BEFORE_LIMIT,
    "gpu": lambda w: PLAN.recipe(w.recipe).processes * GPU,
}


def stage_params(stage):
    return {
        "spec": lambda w: as_json(
            run_spec(PLAN, run_named(w, stage=stage)).model_dump(mode="json")
        ),
        "code": lambda w: job_code(TRAINING, PLAN.get("models", w.model).kind),
        # The full state survives a killed job, which declared outputs would not:
        # the same command resumes from it.
        "state": f"{WORK}/{RUN}/{stage}",
    }


rule language_model:
    input:
        corpus=CORPUS,
        vocabulary=VOCABULARY,
        texts=lambda w: PATHS.outside_files("language_models", w.language_model),
    output:
        weights=LANGUAGE_MODEL_FILE,
        report=str(Path(LANGUAGE_MODEL_FILE).with_suffix(".json")),
    log:
        f"{LOGS}/language_model/{{dataset}}/{{language_model}}.log",
    threads: 2
    resources:
        **STOPPED_BEFORE_LIMIT,
        gpu=GPU,
    params:
        spec=lambda w: as_json(PLAN.spec("language_models", w.language_model)),
        code=code_digest("recap.training.language_model"),
        state=f"{WORK}/language_models/{{dataset}}/{{language_model}}",
    shell:
        "{RECAP} --log-file {log:q} pretrain-lm --spec {params.spec.file:q}"
        " --corpus {input.corpus:q} --vocabulary {input.vocabulary:q} --inputs {PROFILE.inputs:q}"
        " --device {DEVICE} --threads {threads} --state {params.state:q} --out {output.weights:q}"


rule train_xe:
    input:
        unpack(stage_inputs("xe")),
    output:
        **stage_outputs("xe"),
    log:
        f"{LOGS}/train_xe/{RUN}.log",
    # The longest jobs first, so that no core waits for the last of them.
    priority: 1
    threads: threads_of
    resources:
        **TRAINING_RESOURCES,
    params:
        **stage_params("xe"),
        out=subpath(output.model, parent=True),
        weights=option("weights"),
    shell:
        "{RECAP} --log-file {log:q} train --spec {params.spec.file:q}"
        " --execution {EXECUTION:q}/{wildcards.recipe:q}.yaml --corpus {input.corpus:q}"
        " --vocabulary {input.vocabulary:q} --subset {input.subset:q} --features {input.features:q}"
        " {params.weights:q} --state {params.state:q} --out {params.out:q}"


rule train_scst:
    input:
        unpack(stage_inputs("scst")),
    output:
        **stage_outputs("scst"),
    log:
        f"{LOGS}/train_scst/{RUN}.log",
    threads: threads_of
    resources:
        **TRAINING_RESOURCES,
    params:
        **stage_params("scst"),
        init=subpath(input.init, parent=True),
        out=subpath(output.model, parent=True),
    shell:
        "{RECAP} --log-file {log:q} train --spec {params.spec.file:q}"
        " --execution {EXECUTION:q}/{wildcards.recipe:q}.yaml --corpus {input.corpus:q}"
        " --vocabulary {input.vocabulary:q} --subset {input.subset:q} --features {input.features:q}"
        " --init {params.init:q} --state {params.state:q} --out {params.out:q}"
