"""What a reader sees: tables, sample captions with their images, and the numbers for `dvc metrics`."""

from recap.plan.identities import ATTENTION, GATES, job_code
from recap.plan.labels import series_of
from recap.plan.run import row_runs
from recap.plan.source import code_digest

TABLE_FILES = [f"{REPORTS}/tables/{{table}}.{ending}" for ending in ("tex", "csv", "html", "md")]
PAPER_FILES = [f"{REPORTS}/tables/{{table}}.paper.{ending}" for ending in ("tex", "csv", "md")]
FIGURE_FILES = [f"{REPORTS}/figures/{{table}}_captions.{ending}" for ending in ("png", "md")]
ATTENTION_FILE = f"{REPORTS}/figures/{{table}}_attention.png"
GATES_FILES = [f"{REPORTS}/figures/{{table}}_{name}" for name in ("gates.png", "words.png", "gates.csv")]
CURVES_FILE = f"{REPORTS}/figures/curves.png"
SWEEP_FILES = [f"{REPORTS}/figures/{{figure}}.{ending}" for ending in ("csv", "png")]


def reader_files():
    """Return the tables and figures of a finished profile."""
    files = expand([*TABLE_FILES, *PAPER_FILES, *FIGURE_FILES], table=TABLE_IDS)
    files += [ATTENTION_FILE.format(table=name) for name, key in TABLE_IDS.items() if PLAN.tables[key].attention]
    files += [
        file.format(table=name) for name, key in TABLE_IDS.items() if PLAN.tables[key].gates for file in GATES_FILES
    ]
    return [*files, *expand(SWEEP_FILES, figure=FIGURE_IDS), CURVES_FILE]


def report_files():
    """Return all that a finished profile leaves for a reader and for DVC."""
    return [*reader_files(), f"{R}/summary.json", f"{R}/curves.csv"]


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
        html=report(TABLE_FILES[2], caption="../report/table.rst", category="Tables", labels={"table": "{table}"}),
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
        " report table --spec {params.spec.file:q} --statistics {input:q} --out {params.out:q}"


rule samples:
    input:
        statistics=f"{R}/statistics/{{table}}.json",
        corpus=lambda wildcards: f"{R}/data/{sample_dataset(wildcards)}/corpus.parquet",
        images=lambda wildcards: PATHS.images(sample_dataset(wildcards)),
        scores=table_scores,
    output:
        png=report(FIGURE_FILES[0], caption="../report/captions.rst", category="Captions", labels={"table": "{table}"}),
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
        " report captions --spec {params.spec.file:q} --statistics {input.statistics:q} --corpus {input.corpus:q}"
        " --images {input.images:q} --scores {params.scores:q} --out {params.out:q} --count {params.number}"


def attention_rows(wildcards):
    """Return the rows whose attention a table shows."""
    table = PLAN.tables[table_id(wildcards)]
    return [row for row in table.rows if row.id in table.attention]


def attention_runs(wildcards):
    """Return the first seed's trainings of the rows whose attention a table shows."""
    seeds = PLAN.seeds[table_id(wildcards)]
    return [PLAN.weights(row_runs(row, seeds)[0]) for row in attention_rows(wildcards)]


def attention_code(wildcards):
    """Return the digest of the job that draws attention: of the models that it draws, and no others."""
    return job_code(ATTENTION, *{PLAN.get("models", run.model).kind for run in attention_runs(wildcards)})


def attention_heading(wildcards):
    """Return the heading of an attention figure."""
    table = PLAN.tables[table_id(wildcards)]
    shading = "Attention of the first seed; brightness relative to the cell with the largest weight per word, which is outlined in red."
    return "  |  ".join(filter(None, [table.title, table.scale, shading]))


rule attention:
    input:
        corpus=lambda wildcards: PATHS.corpus(attention_runs(wildcards)[0]),
        vocabulary=lambda wildcards: PATHS.vocabulary(attention_runs(wildcards)[0]),
        features=lambda wildcards: PATHS.features(attention_runs(wildcards)[0]),
        images=lambda wildcards: PATHS.images(attention_runs(wildcards)[0].dataset),
        models=lambda wildcards: [f"{R}/runs/{run.path}/model.safetensors" for run in attention_runs(wildcards)],
    output:
        report(ATTENTION_FILE, caption="../report/attention.rst", category="Attention", labels={"table": "{table}"}),
    log:
        f"{LOGS}/attention/{{table}}.log",
    params:
        labels=lambda wildcards: [row.label for row in attention_rows(wildcards)],
        runs=lambda wildcards, input: [str(Path(file).parent) for file in input.models],
        heading=attention_heading,
        code=attention_code,
    shell:
        "{RECAP} --log-file {log:q}"
        " report attention --corpus {input.corpus:q} --vocabulary {input.vocabulary:q}"
        " --features {input.features:q} --images {input.images:q} --runs {params.runs:q} --labels {params.labels:q}"
        " --heading {params.heading:q} --out {output:q}"


def gates_row(wildcards):
    """Return the row whose gates a table shows."""
    table = PLAN.tables[table_id(wildcards)]
    return next(row for row in table.rows if row.id == table.gates)


def gates_run(wildcards):
    """Return the first seed's training of the row whose gates a table shows."""
    return PLAN.weights(row_runs(gates_row(wildcards), PLAN.seeds[table_id(wildcards)])[0])


def gates_heading(wildcards):
    """Return the heading of the figures of gates."""
    table = PLAN.tables[table_id(wildcards)]
    return "  |  ".join(filter(None, [f"Gates of {gates_row(wildcards).label}, first seed", table.title, table.scale]))


rule gates:
    input:
        corpus=lambda wildcards: PATHS.corpus(gates_run(wildcards)),
        vocabulary=lambda wildcards: PATHS.vocabulary(gates_run(wildcards)),
        features=lambda wildcards: PATHS.features(gates_run(wildcards)),
        images=lambda wildcards: PATHS.images(gates_run(wildcards).dataset),
        model=lambda wildcards: f"{R}/runs/{gates_run(wildcards).path}/model.safetensors",
    output:
        report(GATES_FILES[0], caption="../report/gates.rst", category="Gates", labels={"table": "{table}"}),
        report(GATES_FILES[1], caption="../report/gates.rst", category="Gates", labels={"table": "{table}, captions"}),
        GATES_FILES[2],
    log:
        f"{LOGS}/gates/{{table}}.log",
    params:
        run=lambda wildcards, input: str(Path(input.model).parent),
        heading=gates_heading,
        out=f"{REPORTS}/figures",
        code=lambda wildcards: job_code(GATES, PLAN.get("models", gates_run(wildcards).model).kind),
    shell:
        "{RECAP} --log-file {log:q}"
        " report gates --corpus {input.corpus:q} --vocabulary {input.vocabulary:q} --features {input.features:q}"
        " --images {input.images:q} --run {params.run:q} --name {wildcards.table:q} --heading {params.heading:q}"
        " --out {params.out:q}"


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
        figure=report(SWEEP_FILES[1], caption="../report/sweep.rst", category="Figures", labels={"figure": "{figure}"}),
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
        " report sweep --spec {params.spec.file:q} --statistics {params.statistics:q} --out {output.csv:q}"
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
        " report summary --spec {params.spec.file:q} --scores {params.scores:q} --out {output:q}"


rule curves:
    input:
        [f"{R}/runs/{run.path}/history.csv" for run in TRAINED],
    output:
        csv=f"{R}/curves.csv",
        figure=report(
            CURVES_FILE,
            caption="../report/curves.rst",
            category="Learning curves",
            labels={"figure": "validation CIDEr-D by epoch"},
        ),
    log:
        f"{LOGS}/curves.log",
    params:
        spec=lambda wildcards: as_json({"runs": curve_runs()}),
        code=code_digest("recap.reporting.curves"),
        runs=f"{R}/runs",
    shell:
        "{RECAP} --log-file {log:q}"
        " report curves --spec {params.spec.file:q} --runs {params.runs:q} --out {output.csv:q}"
        " --figure {output.figure:q}"
