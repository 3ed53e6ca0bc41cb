"""What a reader sees beside tables: samples, figures, the report, and runs in MLflow."""

from recap.plan.jobs import curve_runs, table_spec
from recap.plan.run import baseline, row_runs

FIGURES = f"{REPORTS}/figures"
PLOTS = {file_name(name): figure for name, figure in PLAN.figures.items()}
# The scored runs of every table row, by a name that is unique in the profile.
ROWS = [(name, key, row) for name, key in TABLE_IDS.items() for row in PLAN.tables[key].rows]
ROW_PATHS = {
    f"{name}.{row.id}": [run.path for run in row_runs(row, PLAN.seeds[key])]
    for name, key, row in ROWS
}
SAMPLE_FILES = {ending: f"{FIGURES}/{{table}}_captions.{ending}" for ending in ("png", "md")}
SWEEP_FILES = {ending: f"{FIGURES}/{{figure}}.{ending}" for ending in ("csv", "png", "pdf", "svg")}
CURVES = {name: file.replace("{figure}", "curves") for name, file in SWEEP_FILES.items()} | {
    "csv": f"{R}/curves.csv"
}
SUMMARY = f"{R}/summary.json"
REPORT_FILE = f"{REPORTS}/report.html"
STORE = "mlflow/mlflow.db"
PUBLISHED = f"mlflow/{PROFILE.name}.published.json"


def reader_files():
    """Return the tables and figures of a finished profile."""
    files = expand([*TABLE_FILES.values(), *SAMPLE_FILES.values()], table=TABLE_IDS)
    files += [f"{FIGURES}/{file}" for figure in PLAN.model_figures for file in figure.files]
    files += CLAIM_FILES.values() if CLAIMS else []
    return [*files, *expand(SWEEP_FILES.values(), figure=PLOTS), *list(CURVES.values())[1:]]


def sample_dataset(w):
    """Return the data set of a table's baseline, whose images the contact sheet shows."""
    return baseline(PLAN.tables[TABLE_IDS[w.table]]).dataset


def constant(value):
    """Return a parameter that Snakemake takes as it is, without a look for wildcards."""
    return lambda w: value


def model_figure_code(figure):
    """Return the digest of the job that draws a figure, with the models that it draws."""
    kinds = {
        PLAN.get("models", run.model).kind for run in figure.runs if figure.settings.needs_models
    }
    return lambda w: job_code(figure.settings.implementation, *kinds)


rule samples:
    input:
        statistics=STATISTICS,
        corpus=lambda w: PATHS.of_dataset(sample_dataset(w), "corpus.parquet"),
        images=lambda w: PATHS.images(sample_dataset(w)),
        scores=table_scores,
    output:
        **{key: shown(file, "Samples") for key, file in SAMPLE_FILES.items()},
    log:
        f"{LOGS}/samples/{{table}}.log",
    params:
        spec=lambda w: as_json(table_spec(PLAN, TABLE_IDS[w.table])),
        code=code_digest("recap.tables.samples:write_samples"),
        number=PROFILE.sample_captions,
        scores=f"{R}/scores",
        out=subpath(output.md, parent=True),
    shell:
        "{RECAP} --log-file {log:q} run-step recap.tables.samples:write_samples"
        " --spec {params.spec.file:q} --name {wildcards.table:q} --corpus-path {input.corpus:q}"
        " --image-roots {input.images:q} --scores-root {params.scores:q} --out {params.out:q}"
        " --count {params.number}"


for figure in PLAN.model_figures:
    RUNS = [run.path for run in figure.runs if figure.settings.needs_models]

    rule:
        name:
            f"figure_{figure.name}"
        input:
            corpus=PATHS.of_dataset(figure.runs[0], "corpus.parquet"),
            vocabulary=PATHS.of_dataset(figure.runs[0], "vocabulary.json"),
            features=may_grow(PATHS.features(figure.runs[0])) if RUNS else [],
            extractors=PATHS.features(figure.runs[0], EXTRACTOR) if RUNS else [],
            images=PATHS.images(figure.runs[0].dataset) if figure.settings.needs_images else [],
            texts=[PATHS.outside(name) for name in figure.settings.texts()],
            models=[f"{R}/runs/{run}/model.safetensors" for run in RUNS],
        output:
            [shown(f"{FIGURES}/{file}", "Figures") for file in figure.files],
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
            out=f"{FIGURES}/{figure.begin}",
            code=model_figure_code(figure),
        shell:
            "{RECAP} --log-file {log:q} report figure --spec {params.spec.file:q}"
            " --corpus {input.corpus:q} --vocabulary {input.vocabulary:q}"
            " {params.features} {input.features:q} {params.images} {input.images:q}"
            " --texts {input.texts:q} --runs {params.runs:q} --labels {params.labels:q}"
            " --heading {params.heading:q} --out {params.out:q}"


rule sweep:
    input:
        lambda w: expand(
            STATISTICS,
            table=sorted({p.table for line in PLOTS[w.figure].lines for p in line.points}),
        ),
    output:
        **{key: shown(file, "Figures") for key, file in SWEEP_FILES.items()},
    log:
        f"{LOGS}/sweep/{{figure}}.log",
    wildcard_constraints:
        figure=one_of(PLOTS),
    params:
        spec=lambda w: as_json({"figure": PLOTS[w.figure].model_dump(mode="json")}),
        code=code_digest("recap.report.figures"),
        statistics=f"{R}/statistics",
    shell:
        "{RECAP} --log-file {log:q} run-step recap.report.figures:write_sweep"
        " --spec {params.spec.file:q} --statistics {params.statistics:q} --out {output.csv:q}"
        " --png {output.png:q}"


rule summary:
    input:
        [PATHS.scores(run)[-1] for run in SCORED],
    output:
        SUMMARY,
    log:
        f"{LOGS}/summary.log",
    params:
        spec=lambda w: as_json({"rows": ROW_PATHS}),
        code=code_digest("recap.report.figures:write_summary"),
        scores=f"{R}/scores",
    shell:
        "{RECAP} --log-file {log:q} run-step recap.report.figures:write_summary"
        " --spec {params.spec.file:q} --scores {params.scores:q} --out {output:q}"


rule curves:
    input:
        [f"{R}/runs/{run.path}/history.csv" for run in TRAINED],
    output:
        **{key: shown(file, "Figures") for key, file in CURVES.items()},
    log:
        f"{LOGS}/curves.log",
    params:
        spec=lambda w: as_json({"runs": curve_runs(PLAN, TRAINED)}),
        code=code_digest("recap.report.figures:write_curves"),
        runs=f"{R}/runs",
    shell:
        "{RECAP} --log-file {log:q} run-step recap.report.figures:write_curves"
        " --spec {params.spec.file:q} --runs {params.runs:q} --out {output.csv:q}"
        " --figure {output.png:q}"


# `recap report make` makes it at any other time, too. Its PDF is no output: that is made where
# LaTeX is installed, and a machine without it has nothing to do. The profile is without how jobs
# are computed here.
rule report_page:
    input:
        reader_files(),
        expand(STATISTICS, table=TABLE_IDS),
        [file for file in study_files() if Path(file).name == "table.html"],
        [f"{R}/runs/{run.path}/training.json" for run in TRAINED],
    output:
        shown(REPORT_FILE, "Report"),
    log:
        f"{LOGS}/report_page.log",
    params:
        profile=lambda w: as_json(
            PROFILE.model_dump(
                mode="json", exclude={"execution", "inputs", "fetch", "keep_archives"}
            )
        ),
        code=table_code("recap.report.page"),
    shell:
        "{RECAP} --log-file {log:q} report make {params.profile.file:q} --params {PLAN.params:q}"
        " --inputs {PROFILE.inputs:q} > /dev/null"


# MLflow is a view of what the jobs wrote,
# which may be deleted at any time and is made again from the results.
rule track_init:
    """Prepare the store once: processes that meet in a fresh one break it for good."""
    output:
        touch("mlflow/ready"),
    log:
        f"{LOGS}/track_init.log",
    shell:
        "{RECAP} --log-file {log:q} run-step recap.share.tracking_store:init_store"
        " --store {STORE:q}"


rule publish:
    input:
        [file for run in TRAINED for file in PATHS.run(run)],
        [file for run in SCORED for file in PATHS.scores(run)],
        expand(STATISTICS, table=TABLE_IDS),
        ready=ancient("mlflow/ready"),
    output:
        PUBLISHED,
    log:
        f"{LOGS}/publish.log",
    params:
        code=code_digest("recap.share.tracking_store"),
        results=R,
    shell:
        "{RECAP} --log-file {log:q} run-step recap.share.tracking_store:publish"
        " --profile {PROFILE.name:q} --results {params.results:q} --store {STORE:q}"
        " --out {output:q}"
