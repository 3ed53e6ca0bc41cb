"""Feature vectors of all pictures in one file, which data sets with the same pictures share."""

# Inside the conda environment, `python` is the one that has detectron2.
CONDA = any(
    "conda" in str(method).lower() for method in workflow.deployment_settings.deployment_method
)
DETECTOR_RECAP = (
    f"env PYTHONPATH={quote(str(Path(workflow.basedir) / 'src'))} python -P -m recap"
    if CONDA
    else RECAP
)
# A store in several parts is made by a job for each,
# with a GPU of its own, and one that merges them.
IN_PARTS = PROFILE.execution.extraction_parts > 1
OF_PART = "-{part}" if IN_PARTS else ""
PARTS = PROFILE.execution.extraction_parts
PART_OPTIONS = lambda w, output: (
    ["--part", f"{w.part}/{PARTS}", "--done", output[0]] if IN_PARTS else []
)
EXTRACTION_RESOURCES = {
    **STOPPED_BEFORE_LIMIT,
    # A resource, as the command's text has it since before there was a file:
    # another text would redo finished stores.
    "execution": lambda w: f"--execution={quote(f'{EXECUTION}/features/{w.features}.yaml')}",
}


rule pretrain:
    input:
        unpack(inputs("pretrain")),
    output:
        **outputs("pretrain"),
    log:
        f"{LOGS}/pretrain/{{dataset}}/{{features}}.log",
    threads: lambda w: job("pretrain", w).threads
    resources:
        gpu=lambda w: job("pretrain", w).gpus,
    params:
        **params("pretrain"),
    shell:
        "{RECAP} --log-file {log:q} run-step recap.features.training:pretrain"
        " --spec {params.spec.file:q} --boxes {input.boxes:q} --images {input.images:q}"
        " --device {DEVICE} --threads {threads} --out {output:q}"


rule used_images:
    """What features are made of: the images that some run reads."""
    input:
        unpack(inputs("used_images")),
    output:
        **outputs("used_images"),
    log:
        f"{LOGS}/used_images/{{dataset}}/{{features}}.log",
    params:
        **params("used_images"),
    shell:
        "{RECAP} --log-file {log:q} run-step recap.data.subsets:write_used"
        " --corpora {input.corpora:q} --subsets {input.subsets:q} --parts {params.parts:q}"
        " --out {output:q}"


rule extractor:
    """What runs depend on in place of a store, which is another file whenever it grows."""
    input:
        # Pictures that a rule fetches are there when the corpus is,
        # and change their folder's time until then.
        unpack(inputs("extractor", old=["corpus"])),
    output:
        **outputs("extractor"),
    log:
        f"{LOGS}/extractor/{{dataset}}/{{features}}.log",
    params:
        **params("extractor"),
    shell:
        "{RECAP} --log-file {log:q} run-step recap.features.extraction:write_note"
        " --spec {params.spec.file:q} --code {params.code} --out {output:q}"
        " --files {input.images:q} {input.weights:q} {input.trained:q} {input.stores:q}"
        " {input.products:q}"


rule features:
    input:
        unpack(inputs("features")),
    output:
        **outputs("features", temporary=IN_PARTS),
    log:
        f"{LOGS}/features/{{dataset}}/{{features}}{OF_PART}.log",
    threads: lambda w: job("features", w).threads
    resources:
        **EXTRACTION_RESOURCES,
        gpu=lambda w: job("features", w).gpus,
    params:
        **params("features", options=["trained", "boxes", "cells"]),
        products=lambda w, input: ["--products", *input.products] if input.products else [],
        part=PART_OPTIONS,
    shell:
        "{RECAP} --log-file {log:q} features extract --spec {params.spec.file:q}"
        " --corpus {input.corpus:q} --used {input.used:q} --images {input.images:q}"
        " --inputs {PROFILE.inputs:q} {params.trained:q} {params.boxes:q} {params.cells:q}"
        " {params.products:q} --device {DEVICE} --threads {threads} {resources.execution}"
        " {params.part:q} --shards {params.shards:q} --kept {params.kept:q} --out {params.out:q}"


# detectron2 has no wheels: `snakemake --sdm conda` runs this rule in an environment that has it.
# Without that option the environment of the other rules is used, and the command says how to get
# detectron2 if it is not there.
rule detector_features:
    input:
        unpack(inputs("detector_features")),
    output:
        **outputs("detector_features", temporary=IN_PARTS),
    log:
        f"{LOGS}/detector_features/{{dataset}}/{{features}}{OF_PART}.log",
    conda:
        "../envs/detectron2.yaml"
    threads: lambda w: job("detector_features", w).threads
    resources:
        **EXTRACTION_RESOURCES,
        gpu=lambda w: job("detector_features", w).gpus,
    params:
        **params("detector_features"),
        part=PART_OPTIONS,
    shell:
        "{DETECTOR_RECAP} --log-file {log:q} features extract --spec {params.spec.file:q}"
        " --corpus {input.corpus:q} --used {input.used:q} --images {input.images:q}"
        " --inputs {PROFILE.inputs:q} --device {DEVICE} --threads {threads} {resources.execution}"
        " {params.part:q} --shards {params.shards:q} --kept {params.kept:q} --out {params.out:q}"


if IN_PARTS:

    rule merge_features:
        input:
            unpack(inputs("merge_features")),
        output:
            **outputs("merge_features"),
        log:
            f"{LOGS}/merge_features/{{dataset}}/{{features}}.log",
        params:
            **params("merge_features"),
        shell:
            "{RECAP} --log-file {log:q} features merge {input:q} --shards {params.shards:q}"
            " --kept {params.kept:q} --out {output:q}"
