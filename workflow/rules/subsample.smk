"""Which training captions a run sees, drawn once per data set, subset and seed."""

from recap.plan.identities import PICTURES as PICTURE_SOURCE
from recap.plan.source import code_digest


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
        " data subset --corpus {input.corpus:q} --name {wildcards.subset:q} --spec {params.spec.file:q}"
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
