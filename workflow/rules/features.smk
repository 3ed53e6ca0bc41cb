"""Feature vectors of all pictures in one file, which data sets with the same pictures share."""

from recap.plan.jobs import extractor_spec
from recap.plan.paths import (
    corpora_of,
    input_features,
    not_fewer,
    readers,
    sent_parts,
    used_features,
    used_subsets,
)

# Inside the conda environment, `python` is the one that has detectron2.
CONDA = any(
    "conda" in str(method).lower() for method in workflow.deployment_settings.deployment_method
)
DETECTOR_RECAP = (
    f"env PYTHONPATH={quote(str(Path(workflow.basedir) / 'src'))} python -P -m recap"
    if CONDA
    else RECAP
)
STORE_NAME = ("{dataset}", "{features}")
BACKBONE, STORE_FILE, USED = (
    PATHS.store(*STORE_NAME, end) for end in ("backbone.safetensors", "h5", "images.txt")
)
# A store in several parts is made by a job for each,
# with a GPU of its own, and one that merges them.
PARTS = PROFILE.execution.extraction_parts
PART = f"{WORK}/parts/{{dataset}}/{{features}}/{{part}}.json"
EXTRACTED, OF_PART = (temp(PART), "-{part}") if PARTS > 1 else (STORE_FILE, "")


def settings_of(w):
    return PLAN.get("features", w.features)


def reader_of(w):
    """Return the data set whose captions and pictures a store is made from: the first that reads it."""
    return readers(PLAN, w.dataset)[0]


def source_notes(w):
    """Return the notes of what makes the stores that a store is made from."""
    return PATHS.stores(w, input_features(PLAN, w.features), EXTRACTOR)


def subsets_of_features(w):
    """Return the subsets of all runs that read a store.

    A list of images that serves more runs stays as it is.
    """
    record = read_record(PATHS.store(w.dataset, w.features, "images.txt"))
    return not_fewer(used_subsets(PATHS, w), record.get("input") or [])


def features_where(condition):
    """Return the constraint of the wildcard `features` to those that fulfil a condition."""
    return one_of(name for name in used_features(PLAN) if condition(PLAN.get("features", name)))


SOURCES = {
    "corpus": lambda w: PATHS.of_dataset(
        reader_of(w), "corpus.parquet"
    ),  # says which pictures there are
    "images": lambda w: PATHS.images(reader_of(w)) if settings_of(w).from_pictures else [],
    # What is imported, or weights neither random nor from the hub.
    "weights": lambda w: PATHS.outside_files("features", w.features),
}
# What decides the values of a store.
EXTRACTION = {
    "spec": lambda w: as_json(extractor_spec(PLAN, w.features)),
    "code": lambda w: code_digest(*settings_of(w).targets()),
}
# What survives a killed job and the start of another, which declared outputs would not: finished shards, and the store
# under a second name, from which it grows.
SURVIVES = {
    "shards": f"{WORK}/shards/{{dataset}}/{{features}}",
    "kept": f"{WORK}/stores/{{dataset}}/{{features}}.h5",
}
EXTRACTION_RESOURCES = {
    **STOPPED_BEFORE_LIMIT,
    # A resource, as the command's text has it since before there was a file:
    # another text would redo finished stores.
    "execution": lambda w: f"--execution={quote(f'{EXECUTION}/features/{w.features}.yaml')}",
}
EXTRACTION_PARAMS = {
    **EXTRACTION,
    "part": lambda w, output: (
        ["--part", f"{w.part}/{PARTS}", "--done", output[0]] if PARTS > 1 else []
    ),
    **SURVIVES,
    "out": STORE_FILE,
}


rule pretrain:
    input:
        boxes=lambda w: PATHS.of_dataset(reader_of(w), "boxes.json"),
        images=lambda w: PATHS.images(reader_of(w)),
    output:
        BACKBONE,
    log:
        f"{LOGS}/pretrain/{{dataset}}/{{features}}.log",
    wildcard_constraints:
        features=features_where(lambda features: features.trained_on_boxes()),
    threads: 2
    resources:
        gpu=GPU,
    params:
        spec=EXTRACTION["spec"],
        code=code_digest("recap.features.training:pretrain"),
    shell:
        "{RECAP} --log-file {log:q} run-step recap.features.training:pretrain"
        " --spec {params.spec.file:q} --boxes {input.boxes:q} --images {input.images:q}"
        " --device {DEVICE} --threads {threads} --out {output:q}"


rule used_images:
    """What features are made of: the images that some run reads."""
    input:
        corpora=lambda w: corpora_of(PATHS, w, subsets_of_features(w)),
        subsets=subsets_of_features,
    output:
        USED,
    log:
        f"{LOGS}/used_images/{{dataset}}/{{features}}.log",
    params:
        code=code_digest("recap.data.subsets:write_used", without=PICTURE_SOURCE),
        parts=lambda w: sent_parts(PATHS, w),
    shell:
        "{RECAP} --log-file {log:q} run-step recap.data.subsets:write_used"
        " --corpora {input.corpora:q} --subsets {input.subsets:q} --parts {params.parts:q}"
        " --out {output:q}"


rule extractor:
    """What runs depend on in place of a store, which is another file whenever it grows."""
    input:
        # Pictures that a rule fetches are there when the corpus is,
        # and change their folder's time until then.
        corpus=lambda w: ancient(SOURCES["corpus"](w)),
        images=SOURCES["images"],
        weights=SOURCES["weights"],
        trained=PATHS.trained_backbone,
        stores=source_notes,
        products=lambda w: [
            PATHS.of_dataset(reader_of(w), name) for name in settings_of(w).products()
        ],
    output:
        PATHS.store(*STORE_NAME, EXTRACTOR),
    log:
        f"{LOGS}/extractor/{{dataset}}/{{features}}.log",
    wildcard_constraints:
        features=features_where(lambda features: True),
    params:
        **EXTRACTION,
    shell:
        "{RECAP} --log-file {log:q} run-step recap.features.extraction:write_note"
        " --spec {params.spec.file:q} --code {params.code} --out {output:q}"
        " --files {input.images:q} {input.weights:q} {input.trained:q} {input.stores:q}"
        " {input.products:q}"


rule features:
    input:
        **SOURCES,
        used=USED,
        trained=PATHS.trained_backbone,
        boxes=lambda w: may_grow(PATHS.stores(w, [settings_of(w).input_features().get("boxes")])),
        cells=lambda w: may_grow(PATHS.stores(w, [settings_of(w).input_features().get("cells")])),
        stores=source_notes,
        products=lambda w: [
            PATHS.of_dataset(reader_of(w), name) for name in settings_of(w).products()
        ],
    output:
        EXTRACTED,
    log:
        f"{LOGS}/features/{{dataset}}/{{features}}{OF_PART}.log",
    wildcard_constraints:
        features=features_where(lambda features: not features.needs_detectron2),
    threads: 2
    resources:
        **EXTRACTION_RESOURCES,
        gpu=lambda w: GPU if settings_of(w).from_pictures else 0,
    params:
        **EXTRACTION_PARAMS,
        trained=option("trained"),
        boxes=option("boxes"),
        cells=option("cells"),
        products=lambda w, input: ["--products", *input.products] if input.products else [],
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
        **SOURCES,
        used=USED,
    output:
        EXTRACTED,
    log:
        f"{LOGS}/detector_features/{{dataset}}/{{features}}{OF_PART}.log",
    wildcard_constraints:
        features=features_where(lambda features: features.needs_detectron2),
    conda:
        "../envs/detectron2.yaml"
    threads: 2
    resources:
        **EXTRACTION_RESOURCES,
        gpu=GPU,
    params:
        **EXTRACTION_PARAMS,
    shell:
        "{DETECTOR_RECAP} --log-file {log:q} features extract --spec {params.spec.file:q}"
        " --corpus {input.corpus:q} --used {input.used:q} --images {input.images:q}"
        " --inputs {PROFILE.inputs:q} --device {DEVICE} --threads {threads} {resources.execution}"
        " {params.part:q} --shards {params.shards:q} --kept {params.kept:q} --out {params.out:q}"


if PARTS > 1:

    rule merge_features:
        input:
            [PART.replace("{part}", str(number)) for number in range(1, PARTS + 1)],
        output:
            STORE_FILE,
        log:
            f"{LOGS}/merge_features/{{dataset}}/{{features}}.log",
        params:
            **SURVIVES,
        shell:
            "{RECAP} --log-file {log:q} features merge {input:q} --shards {params.shards:q}"
            " --kept {params.kept:q} --out {output:q}"
