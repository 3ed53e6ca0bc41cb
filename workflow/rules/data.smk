"""Captions of every data set as one table, its vocabulary, and subsets of its training captions."""

from recap.plan.jobs import corpus_spec
from recap.plan.paths import web_draws
from recap.settings.datasets import SURVIVORS

WANTED_ROWS = f"{R}/data/wanted_rows"
SUBSET = "subsets/{subset}/seed-{seed}"
# A rule has one list of outputs,
# so data sets whose readers write other files beside the corpus have a separate rule.
PRODUCTS_OF = {name: PLAN.get("datasets", name).products for name in PLAN.datasets()}
# Missing outside files: those that are fetched for themselves
# or to be unpacked, of archives, and of the open web.
WHOLE = [
    each for each in PLANNED.needed if each.how == "fetch" and each.entry and not each.pictures
]
FETCHED = [each.entry.name for each in WHOLE if each.named_by != VERSIONS.name]
ARCHIVES = [each.entry.name for each in WHOLE if each.named_by == VERSIONS.name]
UNPACKED = {
    each.path: each.entry.name for each in PLANNED.needed if each.archive and not each.pictures
}
WEB_PICTURES = {each.path: each.pictures for each in PLANNED.needed if each.pictures}


def wanted_rows(survivors):
    """Return the list of the rows to ask for, if draws need only some fetched pictures."""
    folder = Path(survivors).parent.relative_to(PROFILE.inputs)
    return [f"{WANTED_ROWS}/{folder.as_posix()}.txt"] if web_draws(PATHS, survivors) else []


# Rules only for files that are not there:
# one that is there is the user's, and no rule may touch it.
rule fetch:
    output:
        PATHS.outside("{file}"),
    log:
        f"{LOGS}/fetch/{{file}}.log",
    wildcard_constraints:
        file=one_of([*FETCHED, *(ARCHIVES if PROFILE.keep_archives else [])]),
    localrule: True
    params:
        list=str(VERSIONS),
    shell:
        "{RECAP} --log-file {log:q} data fetch {wildcards.file:q} --list {params.list:q}"
        " --into {PROFILE.inputs:q}"


if ARCHIVES and not PROFILE.keep_archives:

    use rule fetch as fetch_to_unpack with:
        output:
            temp(PATHS.outside("{file}")),
        wildcard_constraints:
            file=one_of(ARCHIVES),


# A folder of an archive is unpacked as a whole, whichever of its files are missing.
for FOLDER in sorted(set(UNPACKED.values())):
    FILES = [path for path, name in UNPACKED.items() if name == FOLDER]

    rule:
        name:
            "_".join(["unpack", *re.findall("[A-Za-z0-9]+", FOLDER)])
        input:
            PATHS.outside(LISTED[FOLDER].archive),
        output:
            [directory(path) if path == PATHS.outside(FOLDER) else path for path in FILES],
        log:
            f"{LOGS}/unpack/{FOLDER}.log",
        localrule: True
        params:
            list=str(VERSIONS),
            folder=FOLDER,
        shell:
            "{RECAP} --log-file {log:q} data unpack {params.folder:q} --list {params.list:q}"
            " --into {PROFILE.inputs:q}"


rule wanted_rows:
    """Known before any picture is fetched, because draws go by numbers of rows."""
    input:
        lambda w: WEB_PICTURES[PATHS.outside(f"{w.pictures}/{SURVIVORS}")].tsv,
    output:
        f"{WANTED_ROWS}/{{pictures}}.txt",
    log:
        f"{LOGS}/wanted_rows/{{pictures}}.log",
    params:
        draws=lambda w: as_json(web_draws(PATHS, PATHS.outside(f"{w.pictures}/{SURVIVORS}"))),
        code=code_digest("recap.data.subsets:write_wanted"),
    shell:
        "{RECAP} --log-file {log:q} data wanted --tsv {input:q} --draws {params.draws.file:q}"
        " --out {output:q}"


rule web_pictures:
    """Finished shards are no outputs: a killed or repeated job goes on from them."""
    input:
        tsv=lambda w: WEB_PICTURES[w.pictures].tsv,
        only=lambda w: wanted_rows(w.pictures),
    output:
        "{pictures}",
    log:
        f"{LOGS}/web_pictures/{{pictures}}.log",
    wildcard_constraints:
        pictures=one_of(WEB_PICTURES),
    localrule: True
    params:
        out=subpath(output[0], parent=True),
        min_side=lambda w: WEB_PICTURES[w.pictures].min_side,
        only=option("only"),
    shell:
        "{RECAP} --log-file {log:q} data conceptual-download --tsv {input.tsv:q}"
        " --out {params.out:q} --min-side {params.min_side} {params.only:q}"


for PRODUCTS in dict.fromkeys(PRODUCTS_OF.values()):
    CORPUS_RULE = "_".join(
        ["corpus", *(["with"] if PRODUCTS else []), *(Path(product).stem for product in PRODUCTS)]
    )

    rule:
        name:
            CORPUS_RULE
        input:
            lambda w: PATHS.outside_files("datasets", w.dataset),
        output:
            [PATHS.of_dataset("{dataset}", product) for product in PRODUCTS],
            corpus=CORPUS,
        log:
            f"{LOGS}/{CORPUS_RULE}/{{dataset}}.log",
        wildcard_constraints:
            dataset=one_of(name for name, products in PRODUCTS_OF.items() if products == PRODUCTS),
        params:
            spec=lambda w: as_json(corpus_spec(PLAN, w.dataset)),
            # Its own reader counts, those of other kinds do not.
            code=lambda w: code_digest(
                "recap.data.corpus:build_corpus", PLAN.get("datasets", w.dataset).reader
            ),
            out=subpath(output.corpus, parent=True),
        shell:
            "{RECAP} --log-file {log:q} data corpus --name {wildcards.dataset:q}"
            " --spec {params.spec.file:q} --inputs {PROFILE.inputs:q} --out {params.out:q}"


rule vocabulary:
    input:
        corpus=CORPUS,
        tokenizer=lambda w: PATHS.outside_files("datasets", w.dataset, "vocabulary"),
    output:
        VOCABULARY,
    log:
        f"{LOGS}/vocabulary/{{dataset}}.log",
    params:
        spec=lambda w: as_json(PLAN.spec("datasets", w.dataset)["vocabulary"]),
        code=code_digest("recap.data.vocabulary:build_vocabulary", without=PICTURE_SOURCE),
    shell:
        "{RECAP} --log-file {log:q} data vocabulary --corpus {input.corpus:q}"
        " --spec {params.spec.file:q} --inputs {PROFILE.inputs:q} --out {output:q}"


rule card:
    input:
        corpus=CORPUS,
        # What a reader says about what it left out, where it says something.
        counts=lambda w: [
            PATHS.of_dataset(w.dataset, name)
            for name in PRODUCTS_OF[w.dataset]
            if name == "counts.md"
        ],
    output:
        PATHS.of_dataset("{dataset}", "card.md"),
    log:
        f"{LOGS}/card/{{dataset}}.log",
    params:
        code=code_digest("recap.data.card:write_card", without=PICTURE_SOURCE),
        counts=option("counts"),
    shell:
        "{RECAP} --log-file {log:q} data card --name {wildcards.dataset:q}"
        " --corpus {input.corpus:q} {params.counts:q} --out {output:q}"


rule subset:
    input:
        corpus=CORPUS,
    output:
        f"{DATA}{SUBSET}.json",
    log:
        f"{LOGS}/subset/{{dataset}}/{SUBSET}.log",
    params:
        spec=lambda w: as_json(PLAN.spec("subsets", w.subset)),
        code=code_digest("recap.data.subsets:draw_subset", without=PICTURE_SOURCE),
    shell:
        "{RECAP} --log-file {log:q} run-step recap.data.subsets:draw_subset"
        " --spec {params.spec.file:q} --corpus {input.corpus:q} --name {wildcards.subset:q}"
        " --seed {wildcards.seed} --out {output:q}"
