"""Tables: tests and intervals from the scores of their rows, in all formats."""

from pydantic_core import to_jsonable_python

from recap.plan.jobs import compared, selection_files, selection_spec, training_files
from recap.statistics.scores import ANSWER, sent_captions

STATISTICS = f"{R}/statistics/{{table}}.json"
SELECTIONS = f"{R}/statistics/selections"
CHOOSING = {name for name, key in TABLE_IDS.items() if PLAN.tables[key].selections}
TABLE = f"{REPORTS}/tables/{{table}}"
FORMATS = ("tex", "csv", "html", "md")
TABLE_FILES = {
    style.strip(".") + ending: f"{TABLE}{style}.{ending}"
    for style in ("", ".paper")
    for ending in FORMATS
}
CLAIMS = PLANNED.claims
CLAIM_FILES = {ending: f"{REPORTS}/tables/claims.{ending}" for ending in FORMATS}


def server_folders(table_id):
    """Return path of a scored run -> folder of what COCO's server is sent of it."""
    return {
        each.run.path: SUBMISSION.format(algorithm=each.algorithm)
        for each in PLAN.submissions(table_id)
    }


def server_answers(w):
    """Return the answers of COCO's server that were brought in, and the captions that it scored."""
    places = [Path(folder) for folder in server_folders(TABLE_IDS[w.table]).values()]
    answered = [folder for folder in places if (folder / ANSWER).exists()]
    return [str(file) for folder in answered for file in (folder / ANSWER, sent_captions(folder))]


def table_scores(w):
    outside = [
        file for each in PLAN.scored_files(TABLE_IDS[w.table]) for file in PATHS.scores(each)
    ]
    return [
        *(file for run in PLAN.table_runs(TABLE_IDS[w.table]) for file in PATHS.scores(run)),
        *outside,
    ]


def compared_spec(w):
    """Return a table with its seeds, and the trainings and server's answers behind it."""
    name = TABLE_IDS[w.table]
    spec = compared(PLAN, name, Path(R) / "runs")
    if server := server_folders(name):
        spec["server"] = server
    return as_json(to_jsonable_python(spec))


def selection_records(names):
    """Return the records of tables that choose rows on validation."""
    return [f"{SELECTIONS}/{name}.json" for name in sorted(CHOOSING.intersection(names))]


rule select:
    """Chooses by validation scores alone; the rows' test scores are no input of it."""
    input:
        lambda w: [f"{R}/runs/{file}" for file in selection_files(PLAN, TABLE_IDS[w.table])],
    output:
        f"{SELECTIONS}/{{table}}.json",
    log:
        f"{LOGS}/select/{{table}}.log",
    params:
        spec=lambda w: as_json(selection_spec(PLAN, TABLE_IDS[w.table])),
        code=code_digest("recap.statistics.compare:write_selections"),
        runs=f"{R}/runs",
    shell:
        "{RECAP} --log-file {log:q} run-step recap.statistics.compare:write_selections"
        " --spec {params.spec.file:q} --runs {params.runs:q} --out {output:q}"


rule statistics:
    input:
        table_scores,
        server_answers,
        lambda w: [f"{R}/runs/{file}" for file in training_files(PLAN, TABLE_IDS[w.table])],
        selection=lambda w: selection_records([w.table]),
    output:
        STATISTICS,
    log:
        f"{LOGS}/statistics/{{table}}.log",
    params:
        spec=compared_spec,
        code=code_digest("recap.statistics.compare"),
        scores=f"{R}/scores",
        selection=lambda w: "--selection" if w.table in CHOOSING else "",
    shell:
        "{RECAP} --log-file {log:q} run-step recap.statistics.compare:compare_table"
        " --spec {params.spec.file:q} --name {wildcards.table:q} --scores-root {params.scores:q}"
        " {params.selection} {input.selection:q} --statistics-out {output:q}"


rule table:
    input:
        STATISTICS,
    output:
        **{key: shown(file, "Tables") for key, file in TABLE_FILES.items()},
    log:
        f"{LOGS}/table/{{table}}.log",
    wildcard_constraints:
        table=one_of(TABLE_IDS),
    params:
        spec=lambda w: as_json(PLAN.tables[TABLE_IDS[w.table]].model_dump(mode="json")),
        code=table_code("recap.tables.formats:write_table"),
        out=subpath(output.tex, parent=True),
    shell:
        "{RECAP} --log-file {log:q} run-step recap.cli.steps:table --spec {params.spec.file:q}"
        " --statistics {input:q} --out {params.out:q}"


if CLAIMS:

    rule claims:
        input:
            expand(STATISTICS, table=map(file_name, CLAIMS.tables)),
        output:
            **{key: shown(file, "Claims") for key, file in CLAIM_FILES.items()},
        log:
            f"{LOGS}/claims.log",
        localrule: True
        params:
            spec=lambda w: as_json(CLAIMS.model_dump(mode="json")),
            code=table_code("recap.statistics.claims", "recap.tables.claims"),
            scores=f"{R}/scores",
            out=subpath(output.md, parent=True),
        shell:
            "{RECAP} --log-file {log:q} run-step recap.cli.steps:claims --spec {params.spec.file:q}"
            " --scores {params.scores:q} --out {params.out:q}"
