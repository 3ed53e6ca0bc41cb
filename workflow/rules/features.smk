"""Feature vectors of all pictures of a data set in one packed file."""


rule features:
    input:
        corpus=f"{R}/data/{{dataset}}/corpus.parquet",
        images=lambda wildcards: dataset_images(wildcards.dataset),
        weights=lambda wildcards: weights_inputs(wildcards.features),
    output:
        f"{R}/features/{{dataset}}/{{features}}.h5",
    params:
        spec=lambda wildcards: as_json(GRID.spec("features", wildcards.features)),
        code=code_digest("features/grid", without=["data/karpathy", "data/scenes"]),
        # Finished shards survive a killed job, which declared outputs would not.
        shards=f"{WORK}/shards/{{dataset}}/{{features}}",
    threads: 2
    resources:
        gpu=GPU,
    shell:
        "{RECAP} features extract --spec {params.spec:q} --corpus {input.corpus:q} --images {input.images:q}"
        " --inputs {PROFILE.inputs:q} --device {PROFILE.device} --threads {threads} --shards {params.shards:q}"
        " --out {output:q}"
