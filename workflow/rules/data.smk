"""Captions of every data set as one table, and its vocabulary."""


def dataset_spec(wildcards):
    """Return a data set's config without the vocabulary rule, which is the next rule's."""
    spec = PLAN.spec("datasets", wildcards.dataset)
    return as_json({key: value for key, value in spec.items() if key != "vocabulary"})


def data_files():
    """Return corpora, packed pictures, cards, vocabularies and subsets of all runs."""
    made = {kind(run) for run in SCORED for kind in (corpus_file, card_file, vocabulary_file, subset_file)}
    packed = {file for run in SCORED for file in dataset_images(run.dataset) if file.startswith(f"{R}/")}
    return sorted(made | packed)


def counts_file(wildcards):
    """Return what the reader of a data set says about what it left out, where it says something."""
    counted = PLAN.get("datasets", wildcards.dataset).kind == "iu_xray"
    return [f"{R}/data/{wildcards.dataset}/counts.md"] if counted else []


if TO_FETCH:

    rule fetch:
        """Only for files that are not there: one that is there is the user's, and no rule may touch it."""
        output:
            outside("{file}"),
        wildcard_constraints:
            file=one_of(TO_FETCH.values()),
        params:
            list=str(VERSIONS),
        shell:
            "{RECAP} data fetch {wildcards.file:q} --list {params.list:q} --into {PROFILE.inputs:q}"


rule corpus_scenes:
    output:
        corpus=f"{R}/data/{{dataset}}/corpus.parquet",
        images=f"{R}/data/{{dataset}}/images.zip",
        boxes=f"{R}/data/{{dataset}}/boxes.json",
    wildcard_constraints:
        dataset=of_kinds("scenes"),
    params:
        spec=dataset_spec,
        code=reader_code,
        out=subpath(output.corpus, parent=True),
    shell:
        "{RECAP} data corpus --name {wildcards.dataset:q} --spec {params.spec.file:q} --inputs {PROFILE.inputs:q}"
        " --out {params.out:q}"


use rule corpus_scenes as corpus_of_files with:
    input:
        lambda wildcards: dataset_inputs(wildcards.dataset),
    output:
        corpus=f"{R}/data/{{dataset}}/corpus.parquet",
    wildcard_constraints:
        dataset=of_kinds("karpathy", "coco", "conceptual"),


use rule corpus_scenes as corpus_iu_xray with:
    input:
        lambda wildcards: dataset_inputs(wildcards.dataset),
    output:
        corpus=f"{R}/data/{{dataset}}/corpus.parquet",
        images=f"{R}/data/{{dataset}}/images.zip",
        studies=f"{R}/data/{{dataset}}/studies.csv",
        counts=f"{R}/data/{{dataset}}/counts.md",
    wildcard_constraints:
        dataset=of_kinds("iu_xray"),


rule vocabulary:
    input:
        corpus=f"{R}/data/{{dataset}}/corpus.parquet",
        tokenizer=lambda wildcards: tokenizer_inputs(wildcards.dataset),
    output:
        f"{R}/data/{{dataset}}/vocabulary.json",
    params:
        spec=lambda wildcards: as_json(PLAN.spec("datasets", wildcards.dataset)["vocabulary"]),
        code=code_digest("data/vocabulary/words", without=MAKERS),
    shell:
        "{RECAP} data vocabulary --corpus {input.corpus:q} --spec {params.spec.file:q} --inputs {PROFILE.inputs:q}"
        " --out {output:q}"


rule card:
    input:
        corpus=f"{R}/data/{{dataset}}/corpus.parquet",
        counts=counts_file,
    output:
        f"{R}/data/{{dataset}}/card.md",
    params:
        code=code_digest("data/corpus/card", without=MAKERS),
        counts=lambda wildcards, input: [f"--counts={file}" for file in input.counts],
    shell:
        "{RECAP} data card --name {wildcards.dataset:q} --corpus {input.corpus:q} {params.counts:q} --out {output:q}"
