"""Training: cross-entropy, then self-critical from the best cross-entropy weights."""

from recap.plan.identities import TRAINING, job_code
from recap.plan.run_spec import execution, nodes, run_spec


def train_inputs(stage):
    """Return the function that gives the files that one stage of a run is trained on."""

    def files(wildcards):
        found = PATHS.training_inputs(run_named(wildcards, stage=stage))
        return found | {"features": may_grow(found["features"])}

    return files


def train_spec(stage):
    """Return the function that gives the spec of one stage of a run."""
    return lambda wildcards: as_json(run_spec(PLAN, run_named(wildcards, stage=stage)).model_dump(mode="json"))


def train_code(wildcards):
    """Return the digest of training one kind of model."""
    return job_code(TRAINING, PLAN.get("models", wildcards.model).kind)


def train_limits(stage):
    """Return the limits of one stage of a run."""
    return limits(lambda wildcards: NEEDS.training(run_named(wildcards, stage=stage)))


def processes(wildcards):
    """Return how many processes train a run together; `recap train` starts them by torchrun."""
    return PLAN.recipe(wildcards.recipe).processes


def all_threads(wildcards):
    """Return the CPU threads of all processes of a training."""
    return processes(wildcards) * execution(PLAN, wildcards.recipe).threads


def all_gpus(wildcards):
    """Return the GPUs of all processes of a training: one each, where there are any."""
    return processes(wildcards) * GPU


def on_several(value):
    """Return the function that gives a resource of trainings on several nodes; others do not have it."""

    def resource(wildcards):
        count = nodes(PLAN, wildcards.recipe)
        return value(wildcards, count) if count > 1 else None

    return resource


# For Slurm: `recap train` starts a torchrun on each node by srun, so the job itself begins outside of it (mpi).
SEVERAL_NODES = {
    "mpi": on_several(lambda wildcards, count: "srun"),
    "nodes": on_several(lambda wildcards, count: count),
    "tasks": on_several(lambda wildcards, count: count),
    "tasks_per_gpu": on_several(lambda wildcards, count: 0),
    "cpus_per_task": on_several(lambda wildcards, count: all_threads(wildcards) // count),
}


rule train_xe:
    input:
        unpack(train_inputs("xe")),
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
        **train_limits("xe"),
        **SEVERAL_NODES,
        **STOPPED_BEFORE_LIMIT,
        gpu=all_gpus,
    params:
        spec=train_spec("xe"),
        code=train_code,
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
        unpack(train_inputs("scst")),
    output:
        config=f"{R}/runs/{RUN}/scst/config.yaml",
        model=f"{R}/runs/{RUN}/scst/model.safetensors",
        history=f"{R}/runs/{RUN}/scst/history.csv",
        training=f"{R}/runs/{RUN}/scst/training.json",
    log:
        f"{LOGS}/train_scst/{RUN}.log",
    threads: all_threads
    resources:
        **train_limits("scst"),
        **SEVERAL_NODES,
        **STOPPED_BEFORE_LIMIT,
        gpu=all_gpus,
    params:
        spec=train_spec("scst"),
        code=train_code,
        init=subpath(input.init, parent=True),
        out=subpath(output.model, parent=True),
        state=f"{WORK}/{RUN}/scst",
    shell:
        "{RECAP} --log-file {log:q}"
        " train --spec {params.spec.file:q} --execution {EXECUTION:q}/{wildcards.recipe:q}.yaml"
        " --corpus {input.corpus:q} --vocabulary {input.vocabulary:q}"
        " --subset {input.subset:q} --features {input.features:q} --init {params.init:q} --state {params.state:q}"
        " --out {params.out:q}"
