"""The human studies of a profile, and their jobs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, product
from pathlib import Path

from recap.core.errors import ConfigError
from recap.core.hashing import sha256_file
from recap.plan.data_jobs import corpus, pictures
from recap.plan.job import EntryPoints, Inputs, Job, Jobs
from recap.plan.plan import Plan, asked_for_by
from recap.plan.run import Run, file_name
from recap.plan.run_jobs import scores_of
from recap.settings import Study
from recap.settings.studies import RESPONSE_ENDINGS, SIMULATED

_TEMPLATES = Path(__file__).parents[1] / "studies" / "templates"


def named_studies(plan: Plan) -> dict[str, Study]:
    """Return the human studies that a plan's profile names, by the name of their files."""
    studies: dict[str, Study] = {}
    for name in plan.profile.studies:
        with asked_for_by(f"study {name!r} of profile {plan.profile.name!r}"):
            study: Study = plan.settings.get("studies", name)
            _check_study(plan, study)
        if file_name(name) in studies:
            raise ConfigError(
                f"study {name!r}: another study has files of the same names; rename one"
            )
        studies[file_name(name)] = study
    return studies


def _check_study(plan: Plan, study: Study) -> None:
    """Refuse a study whose raters cannot be shown its rows."""
    study.check_contact()
    for setup, system in product(study.setups, study.systems):
        if not system.reference and system.id not in setup.rows:
            raise ConfigError(
                f"setup {setup.id!r} has no row for system {system.id!r}; name it in `rows`"
            )
    datasets = sorted({run.dataset for run in study_runs(plan, study).values()})
    if len(datasets) != 1:
        raise ConfigError(f"its rows are of the data sets {datasets}; raters see pictures of one")


def study_runs(plan: Plan, study: Study) -> dict[tuple[str, str], Run]:
    """Return the run whose captions a study shows, its row's first seed, by setup and system."""
    runs = {}
    for setup in study.setups:
        for system, row_id in setup.rows.items():
            runs[setup.id, system] = plan.row(row_id).runs[0]
    return runs


def _scale(plan: Plan, study: Study) -> str:
    """Return the sentences about how the models of a study were trained."""
    rows = chain.from_iterable(setup.rows.values() for setup in study.setups)
    return " ".join(dict.fromkeys(plan.tables[plan.row(row).table].scale for row in rows))


def study_jobs(plan: Plan) -> Iterator[Job]:
    """Yield what makes the forms of studies, and tables where there are responses."""
    for name, study in plan.studies.items():
        wildcards = {"study": name}
        form: Inputs = {"sheets": [plan.files.of("study_sheets", **wildcards)["sheets"]]}
        yield _sheets(plan, name, study)
        if study.responses == SIMULATED:
            code = EntryPoints(("recap.studies.responses",))
            yield Job(rule="study_simulate", wildcards=wildcards, inputs=form, code=code)
        if not study.responses:
            continue
        yield Job(
            rule="study_import",
            wildcards=wildcards,
            inputs=form | {"responses": _responses(plan, name, study.responses)},
            code=EntryPoints(("recap.studies.responses",)),
        )
        yield Job(
            rule="study_analysis",
            wildcards=wildcards,
            inputs=form | {"responses": [plan.files.of("study_import", **wildcards)["responses"]]},
            code=EntryPoints(("recap.studies.tables", "recap.studies.analysis"), templates=True),
        )


def _sheets(plan: Plan, name: str, study: Study) -> Job:
    runs = study_runs(plan, study)
    dataset = next(iter(runs.values())).dataset
    captions = {}
    for key, run in runs.items():
        captions["/".join(key)] = scores_of(plan, run)["captions"]
    return Job(
        rule="study_sheets",
        wildcards={"study": name},
        inputs={
            **corpus(plan, dataset),
            "images": pictures(plan, dataset),
            "captions": list(captions.values()),
        },
        spec={
            "name": name,
            "study": study,
            "scale": _scale(plan, study),
        },
        code=EntryPoints(("recap.studies.make",)),
        params={
            "captions": [f"{key}={file}" for key, file in captions.items()],
            "form": [sha256_file(part) for part in sorted(_TEMPLATES.glob("*"))],
        },
    )


def _responses(plan: Plan, name: str, responses: str) -> list[str]:
    """Return the files of the responses to a study, of people or of simulated raters."""
    if responses == SIMULATED:
        return [plan.files.of("study_simulate", study=name)["responses"]]
    folder = Path(plan.files.outside(responses))
    return sorted(str(file) for file in folder.glob("*") if file.suffix in RESPONSE_ENDINGS)


def refuse_without_responses(plan: Plan, jobs: Jobs) -> None:
    """Refuse a study whose folder of responses has none."""
    for job in jobs.of("study_import"):
        if not job.inputs["responses"]:
            name = job.wildcards["study"]
            folder = plan.files.outside(plan.studies[name].responses or "")
            raise ConfigError(
                f"{folder}: no responses to study {name}; put them there, or leave `responses` out "
                "of the study's file to make the forms alone"
            )
