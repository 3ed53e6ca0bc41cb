"""Which training captions a run sees, drawn once a data set, subset and seed."""


rule subset:
    input:
        corpus=f"{R}/data/{{dataset}}/corpus.parquet",
    output:
        f"{R}/data/{{dataset}}/subsets/{{subset}}/seed-{{seed}}.json",
    params:
        spec=lambda wildcards: as_json(GRID.spec("subsets", wildcards.subset)),
        code=code_digest("data/subsample", without=MAKERS),
    shell:
        "{RECAP} data subset --corpus {input.corpus:q} --name {wildcards.subset:q} --spec {params.spec:q}"
        " --seed {wildcards.seed} --out {output:q}"
