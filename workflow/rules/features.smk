"""Feature vectors of all pictures of a data set in one packed file."""

from dataclasses import replace

# Inside the conda environment, `python` is the one that has detectron2.
CONDA = any("conda" in str(method).lower() for method in workflow.deployment_settings.deployment_method)
DETECTOR_RECAP = f"PYTHONPATH={quote(str(Path(workflow.basedir) / 'src'))} exec python -P -m recap" if CONDA else RECAP
BACKBONE = f"{R}/features/{{dataset}}/{{features}}.backbone.safetensors"


def features_spec(wildcards):
    """Return what decides about the values of a store; batch and shard sizes reach the job as resources."""
    settings = PLAN.get("features", wildcards.features)
    return as_json(settings.model_dump(mode="json", exclude=settings.EXECUTION))


def execution_options(wildcards):
    """Return the options that say how an extractor works; a resource, because it makes nothing again."""
    sizes = PLAN.get("features", wildcards.features).execution()
    return " ".join(f"--{key.replace('_', '-')}={size}" for key, size in sizes.items())


def trained_backbone(wildcards):
    """Return the weights that must be trained first, on boxes or captions, if any."""
    file = BACKBONE.format(dataset=wildcards.dataset, features=wildcards.features)
    return [file] if PLAN.get("features", wildcards.features).trained_on() else []


def boxes_store(wildcards):
    """Return the store whose boxes are cut out: for kind 'crops', else none."""
    name = boxes_of(wildcards.features)
    return [f"{R}/features/{wildcards.dataset}/{name}.h5"] if name else []


def cells_store(wildcards):
    """Return the store whose grid is pooled: for kind 'pooled', else none."""
    name = cells_of(wildcards.features)
    return [f"{R}/features/{wildcards.dataset}/{name}.h5"] if name else []


def products_of_features(wildcards):
    """Return what an extractor reads beside the corpus: for true areas of scenes, else none."""
    products = PLAN.get("features", wildcards.features).products()
    return [f"{R}/data/{wildcards.dataset}/{product}" for product in products]


def pictures_of(wildcards):
    """Return the pictures that an extractor reads; imported features need none."""
    return dataset_images(wildcards.dataset) if PLAN.get("features", wildcards.features).from_pictures else []


def extractor_code(wildcards):
    """Return the digest of one extractor's source; a changed extractor redoes its own features alone."""
    return code_digest(*PLAN.get("features", wildcards.features).targets())


def features_where(condition):
    """Return the constraint of the wildcard `features` to those in use whose settings fulfil a condition."""
    return one_of(name for name in used_features() if condition(PLAN.get("features", name)))


def kept_features():
    """Return the feature stores of all runs, with those that they are made from and weights that are trained first."""
    stores = {file for run in SCORED for file in features_files(run)}
    each = [replace(run, features=name) for run in SCORED for name in PLAN.feature_names(run.features)]
    each += [replace(run, features=name) for run in each if (name := cells_of(run.features))]
    more = [[*trained_backbone(run), *boxes_store(run), *cells_store(run)] for run in each]
    return sorted(stores.union(language_model_files(), *more))


rule pretrain:
    input:
        boxes=f"{R}/data/{{dataset}}/boxes.json",
        images=lambda wildcards: dataset_images(wildcards.dataset),
    output:
        BACKBONE,
    log:
        f"{LOGS}/pretrain/{{dataset}}/{{features}}.log",
    wildcard_constraints:
        features=features_where(lambda settings: settings.trained_on() == "boxes"),
    threads: 2
    resources:
        gpu=GPU,
    params:
        spec=features_spec,
        code=code_digest("recap.features.pretrain"),
    shell:
        "{RECAP} --log-file {log:q}"
        " features pretrain --spec {params.spec.file:q} --boxes {input.boxes:q} --images {input.images:q}"
        " --device {DEVICE} --threads {threads} --out {output:q}"


rule tune:
    input:
        corpus=f"{R}/data/{{dataset}}/corpus.parquet",
        images=lambda wildcards: dataset_images(wildcards.dataset),
        weights=lambda wildcards: weights_inputs(wildcards.features),
    output:
        BACKBONE,
    log:
        f"{LOGS}/tune/{{dataset}}/{{features}}.log",
    wildcard_constraints:
        features=features_where(lambda settings: settings.trained_on() == "captions"),
    threads: 2
    resources:
        gpu=GPU,
    params:
        spec=features_spec,
        code=code_digest("recap.features.tune"),
    shell:
        "{RECAP} --log-file {log:q}"
        " features tune --spec {params.spec.file:q} --corpus {input.corpus:q} --images {input.images:q}"
        " --inputs {PROFILE.inputs:q} --device {DEVICE} --threads {threads} --out {output:q}"


rule features:
    input:
        corpus=f"{R}/data/{{dataset}}/corpus.parquet",
        images=pictures_of,
        weights=lambda wildcards: weights_inputs(wildcards.features),
        trained=trained_backbone,
        boxes=boxes_store,
        cells=cells_store,
        products=products_of_features,
    output:
        f"{R}/features/{{dataset}}/{{features}}.h5",
    log:
        f"{LOGS}/features/{{dataset}}/{{features}}.log",
    wildcard_constraints:
        features=features_where(lambda settings: not settings.needs_detectron2),
    threads: 2
    resources:
        gpu=lambda wildcards: GPU if pictures_of(wildcards) else 0,
        execution=execution_options,
    params:
        spec=features_spec,
        code=extractor_code,
        # Finished shards survive a killed job, which declared outputs would not.
        shards=f"{WORK}/shards/{{dataset}}/{{features}}",
        trained=lambda wildcards, input: [f"--trained={file}" for file in input.trained],
        boxes=lambda wildcards, input: [f"--boxes={file}" for file in input.boxes],
        cells=lambda wildcards, input: [f"--cells={file}" for file in input.cells],
        products=lambda wildcards, input: ["--products", *input.products] if input.products else [],
    shell:
        "{RECAP} --log-file {log:q}"
        " features extract --spec {params.spec.file:q} --corpus {input.corpus:q} --images {input.images:q}"
        " --inputs {PROFILE.inputs:q} {params.trained:q} {params.boxes:q} {params.cells:q} {params.products:q} --device {DEVICE}"
        " --threads {threads} {resources.execution} --shards {params.shards:q} --out {output:q}"


# detectron2 has no wheels: `snakemake --sdm conda` runs this rule in an environment that has it. Without that option
# the environment of the other rules is used, and the command says how to get detectron2 if it is not there.
rule detector_features:
    input:
        corpus=f"{R}/data/{{dataset}}/corpus.parquet",
        images=pictures_of,
        weights=lambda wildcards: weights_inputs(wildcards.features),
    output:
        f"{R}/features/{{dataset}}/{{features}}.h5",
    log:
        f"{LOGS}/detector_features/{{dataset}}/{{features}}.log",
    wildcard_constraints:
        features=features_where(lambda settings: settings.needs_detectron2),
    conda:
        "../envs/detectron2.yaml"
    threads: 2
    resources:
        gpu=GPU,
        execution=execution_options,
    params:
        spec=features_spec,
        code=extractor_code,
        shards=f"{WORK}/shards/{{dataset}}/{{features}}",
    shell:
        "{DETECTOR_RECAP} --log-file {log:q}"
        " features extract --spec {params.spec.file:q} --corpus {input.corpus:q} --images {input.images:q}"
        " --inputs {PROFILE.inputs:q} --device {DEVICE} --threads {threads}"
        " {resources.execution} --shards {params.shards:q} --out {output:q}"
