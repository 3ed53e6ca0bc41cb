"""What a reader sees: tables, sample captions with their images, and the numbers for `dvc metrics`."""

from recap.plan.claims import planned_claims
from recap.plan.identities import job_code
from recap.plan.labels import series_of
from recap.plan.run import row_runs
from recap.plan.source import code_digest

TABLE_FILES = [f"{REPORTS}/tables/{{table}}.{ending}" for ending in ("tex", "csv", "html", "md")]
PAPER_FILES = [f"{REPORTS}/tables/{{table}}.paper.{ending}" for ending in ("tex", "csv", "md")]
FIGURE_FILES = [f"{REPORTS}/figures/{{table}}_captions.{ending}" for ending in ("png", "md")]
CURVES_FILE = f"{REPORTS}/figures/curves.png"
CLAIMS = planned_claims(PLAN)
CLAIM_FILES = [f"{REPORTS}/tables/claims.{ending}" for ending in ("tex", "csv", "html", "md")]
SWEEP_FILES = [f"{REPORTS}/figures/{{figure}}.{ending}" for ending in ("csv", "png")]


def reader_files():
    """Return the tables and figures of a finished profile."""
    files = expand([*TABLE_FILES, *PAPER_FILES, *FIGURE_FILES], table=TABLE_IDS)
    files += [PATHS.figure(file) for figure in PLAN.model_figures for file in figure.files]
    files += CLAIM_FILES if CLAIMS else []
    return [*files, *expand(SWEEP_FILES, figure=FIGURE_IDS), CURVES_FILE]


def report_files():
    """Return all that a finished profile leaves for a reader and for DVC."""
    return [*reader_files(), f"{REPORTS}/report.html", f"{R}/summary.json", f"{R}/curves.csv"]


def row_paths():
    """Return the scored runs of every table row, by a name that is unique in the profile."""
    rows = [(name, key, row) for name, key in TABLE_IDS.items() for row in PLAN.tables[key].rows]
    return {f"{name}.{row.id}": [run.path for run in row_runs(row, PLAN.seeds[key])] for name, key, row in rows}


def curve_runs():
    """Return every training stage with the label that a reader knows it by, in the order of the tables' rows."""
    order = list(dict.fromkeys(LABELS.values()))
    curves = [
        {
            "label": LABELS[series_of(run.path)],
            "seed": run.seed,
            "stage": run.stage,
            "path": run.path,
            "after": PLAN.first_stage(run).path if run.stage == "scst" else None,
        }
        for run in TRAINED
    ]
    return sorted(curves, key=lambda curve: order.index(curve["label"]))


def sample_dataset(wildcards):
    """Return the data set of a table's baseline, whose images the contact sheet shows."""
    table = PLAN.tables[table_id(wildcards)]
    return next(row.dataset for row in table.rows if row.id == table.baseline)


rule table:
    input:
        f"{R}/statistics/{{table}}.json",
    output:
        tex=TABLE_FILES[0],
        csv=TABLE_FILES[1],
        html=TABLE_FILES[2],
        md=TABLE_FILES[3],
        paper=PAPER_FILES,
    log:
        f"{LOGS}/table/{{table}}.log",
    wildcard_constraints:
        table=one_of(TABLE_IDS),
    params:
        spec=lambda wildcards: as_json(PLAN.tables[table_id(wildcards)].model_dump(mode="json")),
        code=code_digest("recap.reporting.tables"),
        out=subpath(output.tex, parent=True),
    shell:
        "{RECAP} --log-file {log:q}"
        " run-step table --spec {params.spec.file:q} --statistics {input:q} --out {params.out:q}"


if CLAIMS:

    rule claims:
        input:
            [f"{R}/statistics/{file_name(name)}.json" for name in CLAIMS.tables],
        output:
            tex=CLAIM_FILES[0],
            csv=CLAIM_FILES[1],
            html=CLAIM_FILES[2],
            md=CLAIM_FILES[3],
        log:
            f"{LOGS}/claims.log",
        localrule: True
        params:
            spec=lambda wildcards: as_json(CLAIMS.model_dump(mode="json")),
            code=code_digest("recap.statistics.claims", "recap.reporting.claims"),
            scores=f"{R}/scores",
            out=subpath(output.md, parent=True),
        shell:
            "{RECAP} --log-file {log:q}"
            " report claims --spec {params.spec.file:q} --scores {params.scores:q} --out {params.out:q} > /dev/null"


rule samples:
    input:
        statistics=f"{R}/statistics/{{table}}.json",
        corpus=lambda wildcards: f"{R}/data/{sample_dataset(wildcards)}/corpus.parquet",
        images=lambda wildcards: PATHS.images(sample_dataset(wildcards)),
        scores=table_scores,
    output:
        png=FIGURE_FILES[0],
        md=FIGURE_FILES[1],
    log:
        f"{LOGS}/samples/{{table}}.log",
    params:
        spec=sampled_spec,
        code=code_digest("recap.reporting.figures"),
        number=PROFILE.sample_captions,
        scores=f"{R}/scores",
        out=subpath(output.md, parent=True),
    shell:
        "{RECAP} --log-file {log:q}"
        " run-step samples --spec {params.spec.file:q} --statistics {input.statistics:q} --corpus {input.corpus:q}"
        " --images {input.images:q} --scores {params.scores:q} --out {params.out:q} --count {params.number}"


def constant(value):
    """Return a parameter that Snakemake takes as it is; in plain texts it would look for wildcards."""
    return lambda wildcards: value


def model_figure_code(figure):
    """Return the digest of the job that draws a figure: with the models that it draws, and no others."""
    kinds = {PLAN.get("models", run.model).kind for run in figure.runs if figure.settings.needs_models}
    return lambda wildcards: job_code(figure.settings.implementation, *kinds)


for figure in PLAN.model_figures:
    RUNS = [run.path for run in figure.runs if figure.settings.needs_models]

    rule:
        name:
            f"figure_{figure.name}"
        input:
            corpus=PATHS.corpus(figure.runs[0]),
            vocabulary=PATHS.vocabulary(figure.runs[0]),
            features=may_grow(PATHS.features(figure.runs[0])) if RUNS else [],
            extractors=PATHS.extractors(figure.runs[0]) if RUNS else [],
            images=PATHS.images(figure.runs[0].dataset) if figure.settings.needs_images else [],
            texts=[PATHS.outside(name) for name in figure.settings.texts()],
            models=[f"{R}/runs/{run}/model.safetensors" for run in RUNS],
        output:
            [PATHS.figure(file) for file in figure.files],
        log:
            f"{LOGS}/figure/{figure.name}.log",
        localrule: True
        params:
            spec=constant(as_json(figure.settings.model_dump(mode="json"))),
            features="--features" if RUNS else "",
            images="--images" if figure.settings.needs_images else "",
            runs=[f"{R}/runs/{run}" for run in RUNS],
            labels=constant(list(figure.labels) if RUNS else []),
            heading=constant(figure.heading),
            out=PATHS.figure(figure.begin),
            code=model_figure_code(figure),
        shell:
            "{RECAP} --log-file {log:q}"
            " report figure --spec {params.spec.file:q} --corpus {input.corpus:q} --vocabulary {input.vocabulary:q}"
            " {params.features} {input.features:q} {params.images} {input.images:q}"
            " --texts {input.texts:q} --runs {params.runs:q} --labels {params.labels:q}"
            " --heading {params.heading:q} --out {params.out:q}"


def planned_figure(wildcards):
    """Return the figure whose files have a name."""
    return PLAN.figures[FIGURE_IDS[wildcards.figure]]


def swept_tables(wildcards):
    """Return the statistics of the tables that a figure draws."""
    lines = planned_figure(wildcards).lines
    return [f"{R}/statistics/{name}.json" for name in sorted({point.table for line in lines for point in line.points})]


rule sweep:
    input:
        swept_tables,
    output:
        csv=SWEEP_FILES[0],
        figure=SWEEP_FILES[1],
    log:
        f"{LOGS}/sweep/{{figure}}.log",
    wildcard_constraints:
        figure=one_of(FIGURE_IDS),
    params:
        spec=lambda wildcards: as_json(planned_figure(wildcards).model_dump(mode="json")),
        code=code_digest("recap.reporting.sweep"),
        statistics=f"{R}/statistics",
    shell:
        "{RECAP} --log-file {log:q}"
        " run-step sweep --spec {params.spec.file:q} --statistics {params.statistics:q} --out {output.csv:q}"
        " --figure {output.figure:q}"


rule summary:
    input:
        [f"{R}/scores/{run.path}/metrics.json" for run in SCORED],
    output:
        f"{R}/summary.json",
    log:
        f"{LOGS}/summary.log",
    params:
        spec=lambda wildcards: as_json({"rows": row_paths()}),
        code=code_digest("recap.reporting.summary"),
        scores=f"{R}/scores",
    shell:
        "{RECAP} --log-file {log:q}"
        " run-step summary --spec {params.spec.file:q} --scores {params.scores:q} --out {output:q}"


rule curves:
    input:
        [f"{R}/runs/{run.path}/history.csv" for run in TRAINED],
    output:
        csv=f"{R}/curves.csv",
        figure=CURVES_FILE,
    log:
        f"{LOGS}/curves.log",
    params:
        spec=lambda wildcards: as_json({"runs": curve_runs()}),
        code=code_digest("recap.reporting.curves"),
        runs=f"{R}/runs",
    shell:
        "{RECAP} --log-file {log:q}"
        " run-step curves --spec {params.spec.file:q} --runs {params.runs:q} --out {output.csv:q}"
        " --figure {output.figure:q}"
