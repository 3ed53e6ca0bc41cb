"""Human studies: forms of all raters from test captions, and the tables of what they answered."""

import recap.studies
from recap.core.errors import RecapError
from recap.settings.studies import SIMULATED
from recap.core.hashing import sha256_file
from recap.plan.source import code_digest
from recap.plan.studies import planned_studies, study_runs, study_scale
from recap.studies.make import FILES as STUDY_FILES
from recap.studies.response_files import ENDINGS as RESPONSE_FILES

STUDY = f"{REPORTS}/studies/{{study}}"
STUDY_FORMS = [f"{STUDY}/{name}" for name in STUDY_FILES]
STUDY_TABLES = [f"{STUDY}/table.{ending}" for ending in ("tex", "csv", "html", "md")]
STUDY_STATISTICS = f"{R}/statistics/studies/{{study}}.json"
FORM_PARTS = sorted(Path(recap.studies.__file__).parent.glob("form/*"))


def load_studies():
    """Return the studies of the profile, or stop with the one sentence that says what is wrong."""
    try:
        return planned_studies(PLAN)
    except RecapError as error:
        refuse(str(error))


def study_dataset(name):
    """Return the data set whose pictures a study shows."""
    return next(run.dataset for run in study_runs(PLAN, STUDIES[name]).values())


def study_captions(wildcards):
    """Return the captions of each setup and system."""
    runs = study_runs(PLAN, STUDIES[wildcards.study]).values()
    return [f"{R}/scores/{run.path}/captions.test.json" for run in runs]


def named_captions(wildcards, input):
    """Return the captions of each setup and system, as the command takes them."""
    pairs = study_runs(PLAN, STUDIES[wildcards.study])
    return [f"{setup}/{system}={file}" for (setup, system), file in zip(pairs, input.captions)]


def study_spec(wildcards):
    """Return a study with the sentence about its models."""
    study = STUDIES[wildcards.study]
    return {"name": wildcards.study, "study": study.model_dump(mode="json"), "scale": study_scale(PLAN, study)}


def study_responses(wildcards):
    """Return the files of the responses to a study: those that people gave, or one of simulated raters."""
    responses = STUDIES[wildcards.study].responses
    if responses == SIMULATED:
        return [f"{REPORTS}/studies/{wildcards.study}/simulated.json"]
    files = sorted(str(file) for file in Path(PATHS.outside(responses)).glob("*") if file.suffix in RESPONSE_FILES)
    if not files:
        refuse(
            f"{PATHS.outside(responses)}: no responses to study {wildcards.study}; put them there, or leave `responses` out "
            "of the study's file to make the forms alone"
        )
    return files


def study_files():
    """Return what the studies of a profile leave: forms, and tables where there are responses."""
    answered = [name for name, study in STUDIES.items() if study.responses]
    return [
        *expand(STUDY_FORMS, study=STUDIES),
        *expand([f"{STUDY}/responses.json", *STUDY_TABLES, STUDY_STATISTICS], study=answered),
    ]


STUDIES = load_studies()


rule study_sheets:
    input:
        corpus=lambda wildcards: f"{R}/data/{study_dataset(wildcards.study)}/corpus.parquet",
        images=lambda wildcards: PATHS.images(study_dataset(wildcards.study)),
        captions=study_captions,
    output:
        STUDY_FORMS,
    log:
        f"{LOGS}/study_sheets/{{study}}.log",
    params:
        spec=lambda wildcards: as_json(study_spec(wildcards)),
        captions=named_captions,
        code=code_digest("recap.studies.make"),
        form=[sha256_file(part) for part in FORM_PARTS],
        out=subpath(output[0], parent=True),
    shell:
        "{RECAP} --log-file {log:q}"
        " study sheets --spec {params.spec.file:q} --captions {params.captions:q} --corpus {input.corpus:q}"
        " --images {input.images:q} --out {params.out:q}"


rule study_simulate:
    input:
        f"{STUDY}/sheets.json",
    output:
        f"{STUDY}/simulated.json",
    log:
        f"{LOGS}/study_simulate/{{study}}.log",
    params:
        code=code_digest("recap.studies.simulated"),
    shell:
        "{RECAP} --log-file {log:q}" " study simulate --sheets {input:q} --out {output:q}"


rule study_import:
    input:
        sheets=f"{STUDY}/sheets.json",
        responses=study_responses,
    output:
        f"{STUDY}/responses.json",
    log:
        f"{LOGS}/study_import/{{study}}.log",
    params:
        code=code_digest("recap.studies.collect"),
    shell:
        "{RECAP} --log-file {log:q}"
        " study import --sheets {input.sheets:q} --responses {input.responses:q} --out {output:q}"


rule study_analysis:
    input:
        sheets=f"{STUDY}/sheets.json",
        responses=f"{STUDY}/responses.json",
    output:
        tex=STUDY_TABLES[0],
        csv=STUDY_TABLES[1],
        html=STUDY_TABLES[2],
        md=STUDY_TABLES[3],
        statistics=STUDY_STATISTICS,
    log:
        f"{LOGS}/study_analysis/{{study}}.log",
    params:
        code=code_digest("recap.studies.tables", "recap.studies.analysis"),
        out=subpath(output.tex, parent=True),
    shell:
        "{RECAP} --log-file {log:q}"
        " study analyse --sheets {input.sheets:q} --responses {input.responses:q} --statistics {output.statistics:q}"
        " --out {params.out:q}"
