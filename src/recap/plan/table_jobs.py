"""Jobs that make what a reader sees: statistics, tables, claims, figures and the report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from recap.plan.claims import claims_spec
from recap.plan.data_jobs import corpus, pictures, texts
from recap.plan.figures import PlannedFigure
from recap.plan.job import EntryPoints, Inputs, Job, Jobs, outputs_of
from recap.plan.plan import Plan
from recap.plan.run import ANSWER, TEST, Run, ScoredFile, baseline, file_name
from recap.plan.run_jobs import checkpoint, scores_of, stores
from recap.plan.source import entry_points
from recap.plan.specs import curves_spec, selection_spec, table_spec
from recap.settings.tables import RUN_COLUMNS

# of a profile, those of how jobs are computed on this machine
_NOT_REPORTED = {"execution", "inputs", "fetch", "keep_archives"}


def table_jobs(plan: Plan) -> Iterator[Job]:
    """Yield the jobs of all tables and of the claims about them."""
    for table_id, table in plan.tables.items():
        if table.selections:
            yield select_job(plan, table_id)
        yield statistics_job(plan, table_id)
        yield Job(
            rule="table",
            wildcards=_names(table_id),
            inputs=_statistics(plan, [table_id]),
            spec=table,
            code=EntryPoints(("recap.tables.formats:write_table",), templates=True),
        )
        yield _samples(plan, table_id)
    claims = claims_spec(plan)
    if claims is not None:
        yield Job(
            rule="claims",
            inputs=_statistics(plan, claims.tables),
            spec=claims,
            code=EntryPoints(("recap.statistics.claims", "recap.tables.claims"), templates=True),
            params={"scores": f"{plan.files.results}/scores"},
        )


def _names(table_id: str) -> dict[str, str]:
    return {"table": file_name(table_id)}


def _statistics(plan: Plan, table_ids: Iterable[str]) -> Inputs:
    """Return the statistics of some tables as an input."""
    files = [plan.files.of("statistics", **_names(each))["statistics"] for each in table_ids]
    return {"statistics": files}


def select_job(plan: Plan, table_id: str) -> Job:
    """Return the choice of rows by validation scores alone; test scores are no input of it."""
    spec = selection_spec(plan, table_id)
    paths: set[str] = set()
    for by_seed in spec.trainings.values():
        paths.update(by_seed.values())
    runs = f"{plan.files.results}/runs"
    return Job(
        rule="select",
        wildcards=_names(table_id),
        inputs={"records": [f"{runs}/{path}/training.json" for path in sorted(paths)]},
        spec=spec,
        code=EntryPoints(("recap.statistics.compare:write_selections",)),
        params={"runs": runs},
    )


def _scores(plan: Plan, scored: Iterable[Run | ScoredFile]) -> list[str]:
    files: list[str] = []
    for each in scored:
        files += scores_of(plan, each).values()
    return files


def _table_scores(plan: Plan, table_id: str) -> list[str]:
    return _scores(plan, plan.table_scored(table_id))


def statistics_job(plan: Plan, table_id: str) -> Job:
    """Return the comparison of a table's rows."""
    table = plan.tables[table_id]
    runs = f"{plan.files.results}/runs"
    files = {RUN_COLUMNS[name].file for name in table.columns if name in RUN_COLUMNS}
    records: set[str] = set()
    trainings: dict[str, list[str]] = {}  # read for columns that are no metrics
    for run in plan.table_runs(table_id) if files else ():
        if run.members:
            continue
        trainings[run.path] = [f"{runs}/{stage.path}" for stage in plan.stages(run)]
        for folder in trainings[run.path]:
            records.update(f"{folder}/{name}" for name in files)
    server: dict[str, str] = {}
    answers: list[str] = []
    for sent in plan.submissions:
        if sent.table != table_id:
            continue
        submission = plan.files.of("submission", algorithm=sent.algorithm)
        place = Path(submission["zip"]).parent
        server[sent.run.path] = str(place)
        if (place / ANSWER).exists():  # somebody brought it in
            answers += [str(place / ANSWER), submission[TEST]]
    chosen = [plan.files.of("select", **_names(table_id))["selections"]] if table.selections else []
    return Job(
        rule="statistics",
        wildcards=_names(table_id),
        inputs={
            "scores": _table_scores(plan, table_id),
            "answers": answers,
            "records": sorted(records),
            "selection": chosen,
        },
        spec=table_spec(plan, table_id, trainings=trainings, server=server),
        code=EntryPoints(("recap.statistics.compare",)),
        params={
            "scores": f"{plan.files.results}/scores",
            "selection": "--selection" if chosen else "",
        },
    )


def _samples(plan: Plan, table_id: str) -> Job:
    dataset = baseline(plan.tables[table_id]).dataset
    return Job(
        rule="samples",
        wildcards=_names(table_id),
        inputs={
            **_statistics(plan, [table_id]),
            **corpus(plan, dataset),
            "images": pictures(plan, dataset),
            "scores": _table_scores(plan, table_id),
        },
        spec=table_spec(plan, table_id),
        code=EntryPoints(("recap.tables.samples:write_samples",)),
        params={
            "number": plan.profile.sample_captions,
            "scores": f"{plan.files.results}/scores",
        },
    )


def figure_jobs(plan: Plan) -> Iterator[Job]:
    """Yield the jobs of all figures, of learning curves and of the summary of scores."""
    for figure in plan.model_figures:
        yield _model_figure(plan, figure)
    for name, sweep in plan.figures.items():
        tables = {point.table for line in sweep.lines for point in line.points}
        yield Job(
            rule="sweep",
            wildcards={"figure": file_name(name)},
            inputs=_statistics(plan, sorted(tables)),
            spec={"figure": sweep},
            code=EntryPoints(("recap.report.figures",)),
            params={"statistics": f"{plan.files.results}/statistics"},
        )
    # the scored runs of every row, by a name that is unique in the profile
    rows = {}
    for each in plan.rows:
        rows[f"{file_name(each.table)}.{each.row.id}"] = [run.path for run in each.runs]
    yield Job(
        rule="summary",
        inputs={"metrics": [scores_of(plan, run)["metrics"] for run in plan.scored]},
        spec={"rows": rows},
        code=EntryPoints(("recap.report.figures:write_summary",)),
        params={"scores": f"{plan.files.results}/scores"},
    )
    folder = f"{plan.files.results}/runs"
    yield Job(
        rule="curves",
        inputs={"history": [f"{folder}/{run.path}/history.csv" for run in plan.trained]},
        spec=curves_spec(plan, plan.trained),
        code=EntryPoints(("recap.report.figures:write_curves",)),
        params={"runs": folder},
    )


def _model_figure(plan: Plan, figure: PlannedFigure) -> Job:
    settings = figure.settings
    dataset = figure.runs[0].dataset
    runs = figure.runs if settings.needs_models else ()
    kinds = sorted({plan.settings.model(run.model).kind for run in runs})
    folder = f"{plan.files.reports}/figures"
    files = [plan.files.outside(name) for name in settings.texts()]
    return Job(
        rule=f"figure_{figure.name}",
        inputs={
            **texts(plan, dataset),
            **(stores(plan, runs[0]) if runs else {"features": [], "extractors": []}),
            "images": pictures(plan, dataset) if settings.needs_images else [],
            "texts": files,
            "models": [checkpoint(plan, run) for run in runs],
        },
        outputs={file: f"{folder}/{file}" for file in figure.files},
        spec=settings,
        code=entry_points(settings.implementation, *kinds),
        params={
            "features": "--features" if runs else "",
            "images": "--images" if settings.needs_images else "",
            "runs": [f"{plan.files.results}/runs/{run.path}" for run in runs],
            "labels": list(figure.labels) if runs else [],
            "heading": figure.heading,
            "out": f"{folder}/{figure.begin}",
        },
        outside=tuple(files),
        named_by=f"tables/{figure.table}.yaml",
    )


def page_jobs(plan: Plan, jobs: Jobs) -> Iterator[Job]:
    """Yield what shows all that some jobs make: the report, and runs in MLflow."""
    # `recap report make` makes it at any other time, too. Its PDF is no output: that is made where
    # LaTeX is installed, and a machine without it has nothing to do.
    runs = jobs.of("train_xe", "train_scst")
    shown = [
        *jobs.of("table", "samples", "claims", "sweep", "curves"),
        *jobs.with_prefix("figure_"),
    ]
    yield Job(
        rule="report_page",
        inputs={
            "readers": [file for file in outputs_of(shown) if file.startswith(plan.files.reports)],
            **_statistics(plan, plan.tables),
            "studies": [job.outputs["html"] for job in jobs.of("study_analysis")],
            "trainings": [job.outputs["training"] for job in runs],
        },
        spec=plan.profile.model_dump(mode="json", exclude=_NOT_REPORTED),
        code=EntryPoints(("recap.report.page",), templates=True),
    )
    # MLflow is a view of what the jobs wrote: without it, this job makes it from the results.
    yield Job(
        rule="publish",
        inputs={
            "runs": outputs_of(runs),
            "scores": _scores(plan, plan.scored),
            **_statistics(plan, plan.tables),
        },
        code=EntryPoints(("recap.share.tracking_store",)),
        params={"results": plan.files.results},
    )
