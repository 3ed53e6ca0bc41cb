"""Captions of every data set as one table, and its vocabulary."""


def dataset_spec(wildcards):
    """Return a data set's config without the vocabulary rule, which is the next rule's."""
    spec = PLAN.spec("datasets", wildcards.dataset)
    return as_json({key: value for key, value in spec.items() if key != "vocabulary"})


def corpus_code(wildcards):
    """Return the digest of the job that builds a corpus: its own reader counts, those of other kinds do not."""
    return code_digest("recap.data.corpus.build", PLAN.get("datasets", wildcards.dataset).reader)


def product_files(name):
    """Return what the reader of a data set writes beside the corpus."""
    return [f"{R}/data/{name}/{product}" for product in PLAN.get("datasets", name).products]


def datasets_by_products():
    """Return the data sets in use, grouped by what their readers write beside the corpus."""
    found = {}
    for name in PLAN.datasets():
        found.setdefault(PLAN.get("datasets", name).products, []).append(name)
    return found


def rule_name(products):
    """Return the name of the rule that makes a corpus: `corpus`, or `corpus_with_images_boxes`."""
    return "_".join(["corpus", *(["with"] if products else []), *(Path(product).stem for product in products)])


def data_files():
    """Return corpora, packed pictures, cards, vocabularies and subsets of all runs."""
    made = {kind(run) for run in SCORED for kind in (corpus_file, card_file, vocabulary_file, subset_file)}
    datasets = {run.dataset for run in SCORED}
    packed = {file for dataset in datasets for file in dataset_images(dataset) if file.startswith(f"{R}/")}
    return sorted(made | packed)


def counts_file(wildcards):
    """Return what the reader of a data set says about what it left out, where it says something."""
    return [file for file in product_files(wildcards.dataset) if Path(file).name == "counts.md"]


if TO_FETCH:

    rule fetch:
        """Only for files that are not there: one that is there is the user's, and no rule may touch it."""
        output:
            outside("{file}"),
        log:
            f"{LOGS}/fetch/{{file}}.log",
        wildcard_constraints:
            file=one_of(TO_FETCH.values()),
        params:
            list=str(VERSIONS),
        shell:
            "{RECAP} --log-file {log:q}"
            " data fetch {wildcards.file:q} --list {params.list:q} --into {PROFILE.inputs:q}"


# A rule has one list of outputs, so data sets whose readers write other files have a separate rule.
for PRODUCTS, NAMES in datasets_by_products().items():

    rule:
        name:
            rule_name(PRODUCTS)
        input:
            lambda wildcards: dataset_inputs(wildcards.dataset),
        output:
            [f"{R}/data/{{dataset}}/{product}" for product in PRODUCTS],
            corpus=f"{R}/data/{{dataset}}/corpus.parquet",
        log:
            f"{LOGS}/{rule_name(PRODUCTS)}/{{dataset}}.log",
        wildcard_constraints:
            dataset=one_of(NAMES),
        params:
            spec=dataset_spec,
            code=corpus_code,
            out=subpath(output.corpus, parent=True),
        shell:
            "{RECAP} --log-file {log:q}"
            " data corpus --name {wildcards.dataset:q} --spec {params.spec.file:q} --inputs {PROFILE.inputs:q}"
            " --out {params.out:q}"


rule vocabulary:
    input:
        corpus=f"{R}/data/{{dataset}}/corpus.parquet",
        tokenizer=lambda wildcards: tokenizer_inputs(wildcards.dataset),
    output:
        f"{R}/data/{{dataset}}/vocabulary.json",
    log:
        f"{LOGS}/vocabulary/{{dataset}}.log",
    params:
        spec=lambda wildcards: as_json(PLAN.spec("datasets", wildcards.dataset)["vocabulary"]),
        code=code_digest("recap.data.vocabulary.words", without=PICTURE_SOURCE),
    shell:
        "{RECAP} --log-file {log:q}"
        " data vocabulary --corpus {input.corpus:q} --spec {params.spec.file:q} --inputs {PROFILE.inputs:q}"
        " --out {output:q}"


rule card:
    input:
        corpus=f"{R}/data/{{dataset}}/corpus.parquet",
        counts=counts_file,
    output:
        f"{R}/data/{{dataset}}/card.md",
    log:
        f"{LOGS}/card/{{dataset}}.log",
    params:
        code=code_digest("recap.data.corpus.card", without=PICTURE_SOURCE),
        counts=lambda wildcards, input: [f"--counts={file}" for file in input.counts],
    shell:
        "{RECAP} --log-file {log:q}"
        " data card --name {wildcards.dataset:q} --corpus {input.corpus:q} {params.counts:q} --out {output:q}"
