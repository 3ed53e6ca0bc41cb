"""Feature vectors of all pictures of a data set in one packed file.

Data sets with the same pictures share it. `{dataset}` is the one whose name its folder has, which need not be one of
the plan; captions and pictures are those of the first of the plan that reads it.
"""

from recap.plan.identities import PICTURES as PICTURE_SOURCE
from recap.plan.inputs import used_features
from recap.plan.jobs import extractor_code, extractor_spec
from recap.plan.shared_stores import readers
from recap.plan.source import code_digest
from recap.plan.used_images import corpora_of, not_fewer, sent_parts, used_subsets

from workflow.records import read_record

# Inside the conda environment, `python` is the one that has detectron2.
CONDA = any("conda" in str(method).lower() for method in workflow.deployment_settings.deployment_method)
DETECTOR_RECAP = f"PYTHONPATH={quote(str(Path(workflow.basedir) / 'src'))} exec python -P -m recap" if CONDA else RECAP
BACKBONE = PATHS.backbone("{dataset}", "{features}")
STORE = PATHS.store("{dataset}", "{features}")
USED = PATHS.used_images("{dataset}", "{features}")
# What survives a killed job and the start of another, which declared outputs would not: finished shards, and the store
# under a second name, from which it grows.
SHARDS, KEPT = f"{WORK}/shards/{{dataset}}/{{features}}", f"{WORK}/stores/{{dataset}}/{{features}}.h5"
# A store in several parts is made by a job for each, with a GPU of its own, and one that merges them.
PARTS = PROFILE.execution.extraction_parts
PART = f"{WORK}/parts/{{dataset}}/{{features}}/{{part}}.json"
EXTRACTED, OF_PART = (temp(PART), "-{part}") if PARTS > 1 else (STORE, "")


def features_spec(wildcards):
    """Return what decides the values of a store; batch and shard sizes are in the file of `--execution`."""
    return as_json(extractor_spec(PLAN, wildcards.features))


def features_code(wildcards):
    """Return the digest of an extractor."""
    return extractor_code(PLAN, wildcards.features)


def features_execution(wildcards):
    """Return the option that says how an extractor works.

    A resource, as the command's text has it since before there was a file: another text would redo finished stores.
    """
    return f"--execution={quote(f'{EXECUTION}/features/{wildcards.features}.yaml')}"


def features_weights(wildcards):
    """Return the outside files of features: what is imported, or weights neither random nor from the hub."""
    return PATHS.outside_files("features", wildcards.features)


def reader_of(wildcards):
    """Return the data set whose captions and pictures a store is made from."""
    return readers(PLAN, wildcards.dataset, wildcards.features)[0]


def corpus_of_features(wildcards):
    """Return the captions that say which pictures there are."""
    return PATHS.of_dataset(reader_of(wildcards), "corpus.parquet")


def boxes_of_pictures(wildcards):
    """Return the boxes that an extractor learns first."""
    return PATHS.of_dataset(reader_of(wildcards), "boxes.json")


def products_of_features(wildcards):
    """Return what an extractor reads beside the corpus: for true areas of scenes, else none."""
    products = PLAN.get("features", wildcards.features).products()
    return [PATHS.of_dataset(reader_of(wildcards), product) for product in products]


def pictures_to_learn(wildcards):
    """Return the pictures that the weights of an extractor are trained on."""
    return PATHS.images(reader_of(wildcards))


def pictures_of(wildcards):
    """Return the pictures that an extractor reads; imported features need none."""
    return pictures_to_learn(wildcards) if PLAN.get("features", wildcards.features).from_pictures else []


def part_options(wildcards, output):
    """Return the options of a job that makes a part of a store."""
    return ["--part", f"{wildcards.part}/{PARTS}", "--done", output[0]] if PARTS > 1 else []


def boxes_of_features(wildcards):
    """Return the store whose boxes are cut out, if any; it may grow."""
    return may_grow(PATHS.boxes(wildcards))


def cells_of_features(wildcards):
    """Return the store whose grid is pooled, if any; it may grow."""
    return may_grow(PATHS.cells(wildcards))


def subsets_of_features(wildcards):
    """Return the subsets of all runs that read a store; a list of images that serves more runs stays as it is."""
    record = read_record(PATHS.used_images(wildcards.dataset, wildcards.features))
    return not_fewer(used_subsets(PATHS, wildcards), record.get("input") or [])


def corpora_of_subsets(wildcards):
    """Return the captions that a list of images is made from: of all data sets that share the store."""
    return corpora_of(PATHS, wildcards, subsets_of_features(wildcards))


def features_where(condition):
    """Return the constraint of the wildcard `features` to those in use whose settings fulfil a condition."""
    return one_of(name for name in used_features(PATHS) if condition(PLAN.get("features", name)))


def store_limits():
    """Return the limits of the jobs that make a store."""
    return limits(lambda wildcards: NEEDS.store(wildcards.dataset, wildcards.features))


rule pretrain:
    input:
        boxes=boxes_of_pictures,
        images=pictures_to_learn,
    output:
        BACKBONE,
    log:
        f"{LOGS}/pretrain/{{dataset}}/{{features}}.log",
    wildcard_constraints:
        features=features_where(lambda settings: settings.trained_on() == "boxes"),
    threads: 2
    resources:
        **limits(NEEDS.weights),
        gpu=GPU,
    params:
        spec=features_spec,
        code=code_digest("recap.features.pretrain"),
    shell:
        "{RECAP} --log-file {log:q}"
        " run-step pretrain --spec {params.spec.file:q} --boxes {input.boxes:q} --images {input.images:q}"
        " --device {DEVICE} --threads {threads} --out {output:q}"


rule tune:
    input:
        corpus=corpus_of_features,
        images=pictures_to_learn,
        weights=features_weights,
    output:
        BACKBONE,
    log:
        f"{LOGS}/tune/{{dataset}}/{{features}}.log",
    wildcard_constraints:
        features=features_where(lambda settings: settings.trained_on() == "captions"),
    threads: 2
    resources:
        **limits(NEEDS.weights),
        gpu=GPU,
    params:
        spec=features_spec,
        code=code_digest("recap.features.tune"),
    shell:
        "{RECAP} --log-file {log:q}"
        " run-step tune --spec {params.spec.file:q} --corpus {input.corpus:q} --images {input.images:q}"
        " --inputs {PROFILE.inputs:q} --device {DEVICE} --threads {threads} --out {output:q}"


rule used_images:
    """What features are made of: the images that some run reads."""
    input:
        corpora=corpora_of_subsets,
        subsets=subsets_of_features,
    output:
        USED,
    log:
        f"{LOGS}/used_images/{{dataset}}/{{features}}.log",
    params:
        code=code_digest("recap.data.subsets.used", without=PICTURE_SOURCE),
        parts=lambda wildcards: sent_parts(PATHS, wildcards),
    shell:
        "{RECAP} --log-file {log:q}"
        " run-step used --corpus {input.corpora:q} --subsets {input.subsets:q} --parts {params.parts:q} --out {output:q}"


rule extractor:
    """What runs depend on in place of a store, which is another file whenever it grows."""
    input:
        # Pictures that a rule fetches are there when the corpus is, and change their folder's time until then.
        corpus=lambda wildcards: ancient(corpus_of_features(wildcards)),
        images=pictures_of,
        weights=features_weights,
        trained=PATHS.trained_backbone,
        stores=PATHS.made_from,
        products=products_of_features,
    output:
        PATHS.extractor("{dataset}", "{features}"),
    log:
        f"{LOGS}/extractor/{{dataset}}/{{features}}.log",
    wildcard_constraints:
        features=features_where(lambda settings: True),
    params:
        spec=features_spec,
        code=features_code,
    shell:
        "{RECAP} --log-file {log:q}"
        " run-step note --spec {params.spec.file:q} --code {params.code} --files {input.images:q} {input.weights:q}"
        " {input.trained:q} {input.stores:q} {input.products:q} --out {output:q}"


rule features:
    input:
        corpus=corpus_of_features,
        used=USED,
        images=pictures_of,
        weights=features_weights,
        trained=PATHS.trained_backbone,
        boxes=boxes_of_features,
        cells=cells_of_features,
        stores=PATHS.made_from,
        products=products_of_features,
    output:
        EXTRACTED,
    log:
        f"{LOGS}/features/{{dataset}}/{{features}}{OF_PART}.log",
    wildcard_constraints:
        features=features_where(lambda settings: not settings.needs_detectron2),
    threads: 2
    resources:
        **store_limits(),
        **STOPPED_BEFORE_LIMIT,
        gpu=lambda wildcards: GPU if pictures_of(wildcards) else 0,
        execution=features_execution,
    params:
        spec=features_spec,
        code=features_code,
        part=part_options,
        shards=SHARDS,
        kept=KEPT,
        out=STORE,
        trained=lambda wildcards, input: [f"--trained={file}" for file in input.trained],
        boxes=lambda wildcards, input: [f"--boxes={file}" for file in input.boxes],
        cells=lambda wildcards, input: [f"--cells={file}" for file in input.cells],
        products=lambda wildcards, input: ["--products", *input.products] if input.products else [],
    shell:
        "{RECAP} --log-file {log:q}"
        " features extract --spec {params.spec.file:q} --corpus {input.corpus:q} --used {input.used:q}"
        " --images {input.images:q} --inputs {PROFILE.inputs:q} {params.trained:q} {params.boxes:q} {params.cells:q}"
        " {params.products:q} --device {DEVICE} --threads {threads} {resources.execution} {params.part:q}"
        " --shards {params.shards:q} --kept {params.kept:q} --out {params.out:q}"


# detectron2 has no wheels: `snakemake --sdm conda` runs this rule in an environment that has it. Without that option
# the environment of the other rules is used, and the command says how to get detectron2 if it is not there.
rule detector_features:
    input:
        corpus=corpus_of_features,
        used=USED,
        images=pictures_of,
        weights=features_weights,
    output:
        EXTRACTED,
    log:
        f"{LOGS}/detector_features/{{dataset}}/{{features}}{OF_PART}.log",
    wildcard_constraints:
        features=features_where(lambda settings: settings.needs_detectron2),
    conda:
        "../envs/detectron2.yaml"
    threads: 2
    resources:
        **store_limits(),
        **STOPPED_BEFORE_LIMIT,
        gpu=GPU,
        execution=features_execution,
    params:
        spec=features_spec,
        code=features_code,
        part=part_options,
        shards=SHARDS,
        kept=KEPT,
        out=STORE,
    shell:
        "{DETECTOR_RECAP} --log-file {log:q}"
        " features extract --spec {params.spec.file:q} --corpus {input.corpus:q} --used {input.used:q}"
        " --images {input.images:q} --inputs {PROFILE.inputs:q} --device {DEVICE} --threads {threads}"
        " {resources.execution} {params.part:q} --shards {params.shards:q} --kept {params.kept:q} --out {params.out:q}"


if PARTS > 1:

    rule merge_features:
        input:
            [PART.replace("{part}", str(number)) for number in range(1, PARTS + 1)],
        output:
            STORE,
        log:
            f"{LOGS}/merge_features/{{dataset}}/{{features}}.log",
        resources:
            **store_limits(),
        params:
            shards=SHARDS,
            kept=KEPT,
        shell:
            "{RECAP} --log-file {log:q}"
            " features merge {input:q} --shards {params.shards:q} --kept {params.kept:q} --out {output:q}"
