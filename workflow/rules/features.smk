"""Feature vectors of all pictures of a data set in one packed file."""

BACKBONE = f"{R}/features/{{dataset}}/{{features}}.backbone.safetensors"


def trained_backbone(wildcards):
    """Return the weights that must be trained first: for weights 'boxes', else none."""
    spec = GRID.get("features", wildcards.features)
    return [BACKBONE.format(**wildcards)] if spec.weights == "boxes" else []


rule pretrain:
    input:
        boxes=f"{R}/data/{{dataset}}/boxes.json",
        images=lambda wildcards: dataset_images(wildcards.dataset),
    output:
        BACKBONE,
    params:
        spec=lambda wildcards: as_json(GRID.spec("features", wildcards.features)),
        code=code_digest("features/pretrain", without=ALL_READERS),
    threads: 2
    resources:
        gpu=GPU,
    shell:
        "{RECAP} features pretrain --spec {params.spec:q} --boxes {input.boxes:q} --images {input.images:q}"
        " --device {PROFILE.device} --threads {threads} --out {output:q}"


rule features:
    input:
        corpus=f"{R}/data/{{dataset}}/corpus.parquet",
        images=lambda wildcards: dataset_images(wildcards.dataset),
        weights=lambda wildcards: weights_inputs(wildcards.features),
        trained=trained_backbone,
    output:
        f"{R}/features/{{dataset}}/{{features}}.h5",
    params:
        spec=lambda wildcards: as_json(GRID.spec("features", wildcards.features)),
        code=code_digest("features/grid", without=ALL_READERS),
        # Finished shards survive a killed job, which declared outputs would not.
        shards=f"{WORK}/shards/{{dataset}}/{{features}}",
        trained=lambda wildcards, input: [f"--trained={file}" for file in input.trained],
    threads: 2
    resources:
        gpu=GPU,
    shell:
        "{RECAP} features extract --spec {params.spec:q} --corpus {input.corpus:q} --images {input.images:q}"
        " --inputs {PROFILE.inputs:q} {params.trained:q} --device {PROFILE.device} --threads {threads}"
        " --shards {params.shards:q} --out {output:q}"
