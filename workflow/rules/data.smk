"""Captions of every data set as one table, and its vocabulary."""

from recap.plan.identities import PICTURES as PICTURE_SOURCE
from recap.plan.jobs import corpus_code, corpus_spec
from recap.plan.source import code_digest


def outside_files_of(wildcards):
    """Return the outside files that the corpus of a data set is made from."""
    return PATHS.outside_files("datasets", wildcards.dataset)


def tokenizer_of(wildcards):
    """Return the outside files of the byte pairs of a data set."""
    return PATHS.tokenizer(wildcards.dataset)


def images_of(wildcards):
    """Return folders or zips with the pictures of a data set."""
    return PATHS.images(wildcards.dataset)


def datasets_by_products():
    """Return the data sets in use, grouped by what their readers write beside the corpus."""
    found = {}
    for name in PLAN.datasets():
        found.setdefault(PLAN.get("datasets", name).products, []).append(name)
    return found


def rule_name(products):
    """Return the name of the rule that makes a corpus: `corpus`, or `corpus_with_images_boxes`."""
    return "_".join(["corpus", *(["with"] if products else []), *(Path(product).stem for product in products)])


def counts_file(wildcards):
    """Return what the reader of a data set says about what it left out, where it says something."""
    products = PLAN.get("datasets", wildcards.dataset).products
    return [PATHS.of_dataset(wildcards.dataset, name) for name in products if name == "counts.md"]


# Rules only for files that are not there: one that is there is the user's, and no rule may touch it.
rule fetch:
    output:
        PATHS.outside("{file}"),
    log:
        f"{LOGS}/fetch/{{file}}.log",
    wildcard_constraints:
        file=one_of([*ACQUIRED.fetched.values(), *(ACQUIRED.archives.values() if PROFILE.keep_archives else [])]),
    localrule: True
    params:
        list=str(VERSIONS),
    shell:
        "{RECAP} --log-file {log:q} data fetch {wildcards.file:q} --list {params.list:q} --into {PROFILE.inputs:q}"


if ACQUIRED.archives and not PROFILE.keep_archives:

    use rule fetch as fetch_to_unpack with:
        output:
            temp(PATHS.outside("{file}")),
        wildcard_constraints:
            file=one_of(ACQUIRED.archives.values()),


# A folder of an archive is unpacked as a whole, whichever of its files are missing.
for FOLDER in sorted(set(ACQUIRED.unpacked.values())):

    rule:
        name:
            "_".join(["unpack", *re.findall("[A-Za-z0-9]+", FOLDER)])
        input:
            PATHS.outside(LISTED[FOLDER].archive),
        output:
            [
                directory(path) if path == PATHS.outside(FOLDER) else path
                for path, name in ACQUIRED.unpacked.items()
                if name == FOLDER
            ],
        log:
            f"{LOGS}/unpack/{FOLDER}.log",
        localrule: True
        params:
            list=str(VERSIONS),
            folder=FOLDER,
        shell:
            "{RECAP} --log-file {log:q}"
            " data unpack {params.folder:q} --list {params.list:q} --into {PROFILE.inputs:q}"


rule web_pictures:
    """Pictures and records of finished shards are no outputs: a killed or repeated job goes on from them."""
    input:
        tsv=lambda wildcards: ACQUIRED.pictures[wildcards.pictures].tsv,
        only=lambda wildcards: wanted_rows(wildcards.pictures),
    output:
        "{pictures}",
    log:
        f"{LOGS}/web_pictures/{{pictures}}.log",
    wildcard_constraints:
        pictures=one_of(ACQUIRED.pictures),
    localrule: True
    params:
        out=subpath(output[0], parent=True),
        min_side=lambda wildcards: ACQUIRED.pictures[wildcards.pictures].min_side,
        only=lambda wildcards, input: [f"--only={file}" for file in input.only],
    shell:
        "{RECAP} --log-file {log:q}"
        " data conceptual-download --tsv {input.tsv:q} --out {params.out:q} --min-side {params.min_side} {params.only:q}"


# A rule has one list of outputs, so data sets whose readers write other files have a separate rule.
for PRODUCTS, NAMES in datasets_by_products().items():

    rule:
        name:
            rule_name(PRODUCTS)
        input:
            outside_files_of,
        output:
            [f"{R}/data/{{dataset}}/{product}" for product in PRODUCTS],
            corpus=f"{R}/data/{{dataset}}/corpus.parquet",
        log:
            f"{LOGS}/{rule_name(PRODUCTS)}/{{dataset}}.log",
        wildcard_constraints:
            dataset=one_of(NAMES),
        resources:
            **limits(lambda wildcards: NEEDS.corpus(wildcards.dataset)),
        params:
            spec=lambda wildcards: as_json(corpus_spec(PLAN, wildcards.dataset)),
            code=lambda wildcards: corpus_code(PLAN, wildcards.dataset),
            out=subpath(output.corpus, parent=True),
        shell:
            "{RECAP} --log-file {log:q}"
            " data corpus --name {wildcards.dataset:q} --spec {params.spec.file:q} --inputs {PROFILE.inputs:q}"
            " --out {params.out:q}"


rule vocabulary:
    input:
        corpus=f"{R}/data/{{dataset}}/corpus.parquet",
        tokenizer=tokenizer_of,
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
