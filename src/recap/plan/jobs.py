"""Specs and digests of jobs: what beside input files decides whether a job reruns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, product
from pathlib import Path
from typing import Any

from recap.core.documents import read_mapping
from recap.core.errors import ConfigError, UnknownName, nearest
from recap.plan.run import Run, ScoredFile, file_name, row_runs, series_of
from recap.plan.run_plan import RunPlan, asked_for_by
from recap.plan.source import EVALUATION, job_code
from recap.settings import Row, Study, TableFile
from recap.settings.params import label, load_named, load_profiles, papers, profile_tables, validate
from recap.settings.recipes import (
    CrossEntropyRun,
    EvaluationSpec,
    Execution,
    RunSpec,
    SelfCriticalRun,
)
from recap.settings.specs import ClaimsSpec, ComparedTable, PrintedTable
from recap.settings.tables import RUN_COLUMNS, Check, Claim, ClaimsFile

CLAIMS_FILE = "claims.yaml"  # in the folder of a paper


def corpus_spec(plan: RunPlan, dataset: str) -> dict[str, Any]:
    """Return a data set's settings without the vocabulary's, which are those of another job."""
    return {
        key: value for key, value in plan.spec("datasets", dataset).items() if key != "vocabulary"
    }


def extractor_spec(plan: RunPlan, features: str) -> dict[str, Any]:
    """Return what decides the values of a feature store; batch and shard sizes do not."""
    settings = plan.get("features", features)
    return settings.model_dump(mode="json", exclude=settings.EXECUTION)


def run_spec(plan: RunPlan, run: Run) -> RunSpec:
    """Return what decides one training stage of one seed."""
    recipe = plan.recipe(run.recipe)
    common = {
        name: getattr(run, name)
        for name in ("dataset", "subset", "features", "model", "recipe", "seed")
    }
    common |= {"model_settings": plan.get("models", run.model), "processes": recipe.processes}
    if run.stage == "xe":
        return CrossEntropyRun(**common, stage="xe", stage_settings=recipe.xe)
    if recipe.scst is None:
        raise ConfigError(
            f"recipe {run.recipe!r} has no stage scst; take stage xe, or another recipe"
        )
    return SelfCriticalRun(**common, stage="scst", stage_settings=recipe.scst)


def execution(plan: RunPlan, recipe: str) -> Execution:
    """Return how a recipe's runs are computed: the profile's word goes before the recipe's."""
    return plan.profile.execution.over(plan.recipe(recipe).execution)


def evaluation_spec(plan: RunPlan, recipe: str) -> EvaluationSpec:
    """Return how the captions of a recipe's runs are decoded and scored."""
    return EvaluationSpec(evaluation=plan.recipe(recipe).evaluation)


def released_code(scored: ScoredFile, released: Path) -> str:
    """Return the digest of a row's metrics and of decoding with a folder of released weights."""
    settings = read_mapping(released / "config.yaml")["spec"]["model_settings"]
    return job_code(EVALUATION, settings["kind"], metrics=scored.metrics)


def table_spec(plan: RunPlan, table_id: str) -> dict[str, Any]:
    """Return a table with the seeds of its runs."""
    return {"table": plan.tables[table_id].model_dump(mode="json"), "seeds": plan.seeds[table_id]}


def trainings(plan: RunPlan, table_id: str) -> dict[str, list[str]]:
    """Return path of a scored run -> paths of its trainings, in their order.

    Nothing where all columns are metrics.
    """
    if not RUN_COLUMNS.keys() & set(plan.tables[table_id].columns):
        return {}
    behind = {}
    for run in plan.table_runs(table_id):
        if not run.members:
            behind[run.path] = [stage.path for stage in plan.stages(run)]
    return behind


def compared(plan: RunPlan, table_id: str, runs: Path) -> dict[str, Any]:
    """Return what statistics compare: a table, its seeds, and the trainings behind it."""
    folders = {}
    for run, paths in trainings(plan, table_id).items():
        folders[run] = [runs / path for path in paths]
    own = {"table": plan.tables[table_id], "seeds": plan.seeds[table_id]}
    return own | ({"trainings": folders} if folders else {})


def training_files(plan: RunPlan, table_id: str) -> list[str]:
    """Return the files, below the folder of all runs, that the columns of a table are read from."""
    columns = [column for column in plan.tables[table_id].columns if column in RUN_COLUMNS]
    names = {RUN_COLUMNS[column].file for column in columns}
    stages = set(chain.from_iterable(trainings(plan, table_id).values()))
    return [f"{path}/{name}" for path, name in product(sorted(stages), sorted(names))]


def curve_runs(plan: RunPlan, runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return trainings with their labels for a reader, in the order of the tables' rows."""
    labels = plan.short_labels(runs)
    order, curves = list(dict.fromkeys(labels.values())), list[dict[str, Any]]()
    for run in sorted(runs, key=lambda run: order.index(labels[series_of(run.path)])):
        own = {
            "label": labels[series_of(run.path)],
            "seed": run.seed,
            "stage": run.stage,
            "path": run.path,
        }
        curves.append({**own, "after": plan.first_stage(run).path if run.stage == "scst" else None})
    return curves


def selection_spec(plan: RunPlan, table_id: str) -> dict[str, Any]:
    """Return the rows among which a table chooses on the validation split, with their trainings."""
    table, seeds = plan.tables[table_id], plan.seeds[table_id]
    over = set(chain.from_iterable(selection.over for selection in table.selections))
    labels, behind = {}, {}
    for row in table.rows:
        if row.id in over:
            runs = row_runs(row, seeds)
            labels[row.id] = row.label
            behind[row.id] = {str(run.seed): plan.weights(run).path for run in runs}
    return {
        "selections": [selection.model_dump() for selection in table.selections],
        "labels": labels,
        "trainings": behind,
    }


def selection_files(plan: RunPlan, table_id: str) -> list[str]:
    """Return the records of these trainings, below the folder of all runs."""
    paths: set[str] = set()
    for by_seed in selection_spec(plan, table_id)["trainings"].values():
        paths.update(by_seed.values())
    return [f"{path}/training.json" for path in sorted(paths)]


def planned_studies(plan: RunPlan) -> dict[str, Study]:
    """Return the human studies of a plan's profile by the name of their files."""
    studies: dict[str, Study] = {}
    for name in plan.profile.studies:
        with asked_for_by(f"study {name!r} of profile {plan.profile.name!r}"):
            study: Study = load_named(plan.params, "studies", name)
            study.check_contact()
            for setup, system in product(study.setups, study.systems):
                if not system.reference and system.id not in setup.rows:
                    raise ConfigError(
                        f"setup {setup.id!r} has no row for system {system.id!r}; name it in `rows`"
                    )
            datasets = sorted({run.dataset for run in study_runs(plan, study).values()})
            if len(datasets) != 1:
                raise ConfigError(
                    f"its rows are of the data sets {datasets}; raters see pictures of one"
                )
        if file_name(name) in studies:
            raise ConfigError(
                f"study {name!r}: another study has files of the same names; rename one"
            )
        studies[file_name(name)] = study
    return studies


def study_runs(plan: RunPlan, study: Study) -> dict[tuple[str, str], Run]:
    """Return the run whose captions a study shows, its row's first seed, by setup and system."""
    runs = {}
    for setup in study.setups:
        for system, row_id in setup.rows.items():
            table_id, row = plan.row(row_id)
            runs[setup.id, system] = row_runs(row, plan.seeds[table_id])[0]
    return runs


def study_scale(plan: RunPlan, study: Study) -> str:
    """Return the sentences about how the models of a study were trained."""
    rows = chain.from_iterable(setup.rows.values() for setup in study.setups)
    return " ".join(dict.fromkeys(plan.tables[plan.row(row)[0]].scale for row in rows))


def papers_with_claims(params: Path) -> list[str]:
    """Return the papers whose folders have claims."""
    return [paper for paper in papers(params) if (params / paper / CLAIMS_FILE).is_file()]


def read_claims(params: Path, paper: str) -> list[Claim]:
    """Return the claims of a paper."""
    path = params / paper / CLAIMS_FILE
    if not path.is_file():
        raise UnknownName(
            f"there are no claims of {paper!r}; {nearest(paper, papers_with_claims(params))}"
        )
    file: ClaimsFile = validate(ClaimsFile, read_mapping(path), label(params, path))
    return file.claims


def tables_of(claims: Iterable[Claim]) -> list[str]:
    """Return the names of the tables that claims are about."""
    names: list[str] = []
    for check in _checks(claims):
        names += check.tables
    return list(dict.fromkeys(names))


def _checks(claims: Iterable[Claim]) -> list[Check]:
    return list(chain.from_iterable(claim.checks for claim in claims))


def planned_claims(plan: RunPlan) -> ClaimsSpec | None:
    """Return the claims of the papers whose tables a plan makes.

    None where it makes none of them.
    """
    claims: list[Claim] = []
    for paper in papers_with_claims(plan.params):
        of_paper = read_claims(plan.params, paper)
        if set(tables_of(of_paper)) & set(plan.tables):
            check_claims(plan.params, paper, of_paper)
            claims += of_paper
    return _claims_spec(plan, claims) if claims else None


def check_claims(params: Path, paper: str, claims: Iterable[Claim]) -> None:
    """Refuse a claim about a row or a column that its table does not have at any scale."""
    file = label(params, params / paper / CLAIMS_FILE)
    tables: dict[str, TableFile] = {}
    for claim in claims:
        with asked_for_by(f"claim {claim.id} of {file}"):
            for check in claim.checks:
                for name in check.tables:
                    tables[name] = tables.get(name) or load_named(params, "tables", name)
                    _check_names(check, name, tables[name])


def _check_names(check: Check, name: str, table: TableFile) -> None:
    rows = [row.id for row in table.rows]
    uses = [("row", check.row, rows)]
    if name == check.table:  # a table in its place may lack some of these
        uses += [("row", row, rows) for row in check.rows]
    if check.quoted:
        uses.append(("quoted row", check.quoted, [row.id for row in table.quoted]))
    uses += [("column", metric, table.columns) for metric in check.metrics]
    for kind, used, known in uses:
        if used not in known:
            raise ConfigError(f"table {name} has no {kind} {used!r}; {nearest(used, known)}")


def paper_claims(
    params: Path, paper: str, *, scale: str | None, results: Path
) -> tuple[ClaimsSpec, Path]:
    """Return claims of a paper at a scale (default: first with scores), and its scores' folder."""
    claims = read_claims(params, paper)
    check_claims(params, paper, claims)
    every = load_profiles(params / paper / "profile.yaml")
    at_scale = [each for each in every if scale in (None, each.scale)]
    if not at_scale:
        raise ConfigError(
            f"{paper} has no scale {scale!r}; {nearest(str(scale), [str(p.scale) for p in every])}"
        )
    profile = next(
        (each for each in at_scale if (results / each.name / "scores").is_dir()), at_scale[0]
    )
    scores = results / profile.name / "scores"
    planned = profile_tables(params, profile)
    tables = [name for name in tables_of(claims) if name in planned]
    if not tables:
        return ClaimsSpec(scale=profile.scale or "", claims=claims, tables={}), scores
    alone = profile.model_copy(update={"tables": tables, "figures": [], "studies": []})
    return _claims_spec(RunPlan(alone, params), claims), scores


def _claims_spec(plan: RunPlan, claims: list[Claim]) -> ClaimsSpec:
    names = [name for name in tables_of(claims) if name in plan.tables]
    tables = {
        name: ComparedTable(table=plan.tables[name], seeds=plan.seeds[name]) for name in names
    }
    printed = {}
    for name in sorted({check.table for check in _checks(claims) if check.in_place}):
        table = load_named(plan.params, "tables", name)
        rows = {row.id: row.printed for row in (*table.rows, *table.quoted)}
        printed[name] = PrintedTable(
            stage=table.defaults.stage or Row.model_fields["stage"].default, rows=rows
        )
    return ClaimsSpec(scale=plan.profile.scale or "", claims=claims, tables=tables, printed=printed)
