"""Human studies: forms of all raters from test captions, and the tables of what they answered."""

import recap.studies
from recap.core.errors import RecapError
from recap.core.hashing import sha256_file
from recap.plan.jobs import planned_studies, study_runs, study_scale
from recap.settings.studies import SIMULATED
from recap.studies.make import FILES as STUDY_FILES
from recap.studies.responses import ENDINGS as RESPONSE_FILES

STUDY = f"{REPORTS}/studies/{{study}}"
STUDY_FORMS = [f"{STUDY}/{name}" for name in STUDY_FILES]
STUDY_TABLES = {ending: f"{STUDY}/table.{ending}" for ending in ("tex", "csv", "html", "md")}
STUDY_STATISTICS = f"{R}/statistics/studies/{{study}}.json"
FORM_PARTS = sorted(Path(recap.studies.__file__).parent.glob("templates/*"))
try:
    STUDIES = planned_studies(PLAN)
except RecapError as error:
    refuse(str(error))


def shown_runs(w):
    """Return the run whose captions a study shows, by setup and system."""
    return study_runs(PLAN, STUDIES[w.study])


def shown_dataset(w):
    return next(run.dataset for run in shown_runs(w).values())


def study_spec(w):
    """Return a study with the sentence about its models."""
    study = STUDIES[w.study]
    return as_json(
        {"name": w.study, "study": study.model_dump(mode="json"), "scale": study_scale(PLAN, study)}
    )


def study_responses(w):
    """Return the files of the responses to a study, of people or of simulated raters."""
    responses = STUDIES[w.study].responses
    if responses == SIMULATED:
        return [f"{REPORTS}/studies/{w.study}/simulated.json"]
    folder = PATHS.outside(responses)
    files = sorted(str(file) for file in Path(folder).glob("*") if file.suffix in RESPONSE_FILES)
    if not files:
        refuse(
            f"{folder}: no responses to study {w.study}; put them there, "
            "or leave `responses` out of the study's file to make the forms alone"
        )
    return files


def study_files():
    """Return what the studies of a profile leave: forms, and tables where there are responses."""
    answered = [name for name, study in STUDIES.items() if study.responses]
    tables = [f"{STUDY}/responses.json", *STUDY_TABLES.values(), STUDY_STATISTICS]
    return [*expand(STUDY_FORMS, study=STUDIES), *expand(tables, study=answered)]


rule study_sheets:
    input:
        corpus=lambda w: PATHS.of_dataset(shown_dataset(w), "corpus.parquet"),
        images=lambda w: PATHS.images(shown_dataset(w)),
        captions=lambda w: [PATHS.scores(run)[0] for run in shown_runs(w).values()],
    output:
        STUDY_FORMS,
    log:
        f"{LOGS}/study_sheets/{{study}}.log",
    params:
        spec=study_spec,
        captions=lambda w, input: [
            f"{'/'.join(key)}={file}" for key, file in zip(shown_runs(w), input.captions)
        ],
        code=code_digest("recap.studies.make"),
        form=[sha256_file(part) for part in FORM_PARTS],
        out=subpath(output[0], parent=True),
    shell:
        "{RECAP} --log-file {log:q} study sheets --spec {params.spec.file:q}"
        " --captions {params.captions:q} --corpus {input.corpus:q} --images {input.images:q}"
        " --out {params.out:q}"


rule study_simulate:
    input:
        f"{STUDY}/sheets.json",
    output:
        f"{STUDY}/simulated.json",
    log:
        f"{LOGS}/study_simulate/{{study}}.log",
    params:
        code=code_digest("recap.studies.responses"),
    shell:
        "{RECAP} --log-file {log:q} study simulate --sheets {input:q} --out {output:q}"


rule study_import:
    input:
        sheets=f"{STUDY}/sheets.json",
        responses=study_responses,
    output:
        f"{STUDY}/responses.json",
    log:
        f"{LOGS}/study_import/{{study}}.log",
    params:
        code=code_digest("recap.studies.responses"),
    shell:
        "{RECAP} --log-file {log:q} study import --sheets {input.sheets:q}"
        " --responses {input.responses:q} --out {output:q}"


rule study_analysis:
    input:
        sheets=f"{STUDY}/sheets.json",
        responses=f"{STUDY}/responses.json",
    output:
        **{key: shown(file, "Human studies") for key, file in STUDY_TABLES.items()},
        statistics=STUDY_STATISTICS,
    log:
        f"{LOGS}/study_analysis/{{study}}.log",
    params:
        code=table_code("recap.studies.tables", "recap.studies.analysis"),
        out=subpath(output.tex, parent=True),
    shell:
        "{RECAP} --log-file {log:q} study analyse --sheets {input.sheets:q}"
        " --responses {input.responses:q} --statistics {output.statistics:q} --out {params.out:q}"
