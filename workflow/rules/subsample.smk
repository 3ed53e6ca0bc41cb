"""Which training captions a run sees, drawn once per data set, subset and seed; and which web pictures draws need."""

from recap.plan.identities import PICTURES as PICTURE_SOURCE
from recap.plan.source import code_digest
from recap.plan.used_images import tsv_of_draws, web_draws
from recap.settings.datasets import SURVIVORS

WANTED_ROWS = f"{R}/data/wanted_rows"


def draws_of(wildcards):
    """Return what is drawn from a list of web pictures."""
    return web_draws(PATHS, PATHS.outside(f"{wildcards.pictures}/{SURVIVORS}"))


def wanted_rows(survivors):
    """Return the list of the rows to ask for, if draws need only some of those of a list of fetched pictures."""
    folder = Path(survivors).parent.relative_to(PROFILE.inputs)
    return [f"{WANTED_ROWS}/{folder.as_posix()}.txt"] if web_draws(PATHS, survivors) else []


rule wanted_rows:
    """Known before any picture is fetched, because draws go by numbers of rows."""
    input:
        lambda wildcards: tsv_of_draws(PATHS, PATHS.outside(f"{wildcards.pictures}/{SURVIVORS}")),
    output:
        f"{WANTED_ROWS}/{{pictures}}.txt",
    log:
        f"{LOGS}/wanted_rows/{{pictures}}.log",
    params:
        draws=lambda wildcards: as_json(draws_of(wildcards)),
        code=code_digest("recap.data.subsets.wanted"),
    shell:
        "{RECAP} --log-file {log:q}" " data wanted --tsv {input:q} --draws {params.draws.file:q} --out {output:q}"


rule subset:
    input:
        corpus=f"{R}/data/{{dataset}}/corpus.parquet",
    output:
        f"{R}/data/{{dataset}}/subsets/{{subset}}/seed-{{seed}}.json",
    log:
        f"{LOGS}/subset/{{dataset}}/subsets/{{subset}}/seed-{{seed}}.log",
    params:
        spec=lambda wildcards: as_json(PLAN.spec("subsets", wildcards.subset)),
        code=code_digest("recap.data.subsets.subsample", without=PICTURE_SOURCE),
    shell:
        "{RECAP} --log-file {log:q}"
        " run-step subset --corpus {input.corpus:q} --name {wildcards.subset:q} --spec {params.spec.file:q}"
        " --seed {wildcards.seed} --out {output:q}"


rule unpaired:
    """Made when asked for by name: the pictures and captions that a subset of images leaves over."""
    input:
        corpus=f"{R}/data/{{dataset}}/corpus.parquet",
        subset=f"{R}/data/{{dataset}}/subsets/{{subset}}/seed-{{seed}}.json",
    output:
        f"{R}/data/{{dataset}}/subsets/{{subset}}/seed-{{seed}}.unpaired.json",
    log:
        f"{LOGS}/unpaired/{{dataset}}/subsets/{{subset}}/seed-{{seed}}.log",
    params:
        code=code_digest("recap.data.subsets.unpaired", without=PICTURE_SOURCE),
    shell:
        "{RECAP} --log-file {log:q}"
        " data unpaired --corpus {input.corpus:q} --subset {input.subset:q} --out {output:q}"
