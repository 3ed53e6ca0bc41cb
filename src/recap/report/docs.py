"""Pages of docs made from published runs alone, so that no number in them is typed by hand."""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from recap.core.errors import DataError, counted
from recap.core.files import reading, write_text
from recap.core.log import log
from recap.plan.amounts import UnknownSize
from recap.plan.costs import ONE_CORE, TABLE, Costs, inputs_of, read_costs
from recap.plan.jobs import curve_runs, planned_claims
from recap.plan.paths import Paths
from recap.plan.run import Run, row_runs, series_of
from recap.plan.run_plan import RunPlan
from recap.report.figures import write_curves
from recap.report.page import shown_tables
from recap.report.published import PUBLISHED, Header, Training, restored
from recap.settings.tables import STAGE_NAMES
from recap.statistics.claims import NOT_RUN, judge_claims
from recap.tables.claims import claim_line
from recap.tables.formats import markdown_table, markdown_text
from recap.tables.text import Block, Cell, Line, TextTable, plain

PROSE, IMAGES = "prose", "images"  # folders below that of the pages
NONE_PUBLISHED = "No run at this scale is published."
_HOUR = 3600
_COLUMNS = ("Stage", "Seeds", "CPU hours", "Finished")


def write_docs(name: str, plans: Sequence[RunPlan], into: Path) -> Path:
    """Write ``<name>.md`` from ``published/`` in the same folder: a section for each scale, with a figure."""
    page = into / f"{name}.md"
    write_text(page, docs_page(name, plans, into, into / IMAGES))
    log.info(f"{page}: {counted(len(plans), 'scale')}")
    return page


def docs_page(name: str, plans: Sequence[RunPlan], into: Path, images: Path) -> str:
    """Return the text of a page, and write its figures into the folder ``images``."""
    scales = [plan.profile.scale for plan in plans if plan.profile.scale]
    words = ["--scale", *scales] if scales else []
    command = " ".join(["recap report docs", name, *words, "--into", into.as_posix()])
    made_by = (
        f"Made by `{command}` from `{PUBLISHED}/` and `{PROSE}/`; `make results` checks it. A change by hand is lost."
    )
    lines = [f"# Results of {name}", "", made_by, ""]
    for plan in plans:
        lines += ["", f"## Scale {plan.profile.scale}" if plan.profile.scale else "## Without a scale", ""]
        with restored(plan, into / PUBLISHED) as (copy, headers):
            lines += _section(plan, copy, headers, into, images) if headers else [NONE_PUBLISHED]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip("\n") + "\n"


def _section(plan: RunPlan, copy: RunPlan, headers: Mapping[str, Header], into: Path, images: Path) -> Iterator[str]:
    """Yield the lines of a scale: what was run, tables, figure, verdicts, runs, and what is missing."""
    results, name = Path(Paths(copy).results), plan.profile.name
    behind = {training.path: training for header in headers.values() for training in header.trainings}
    finished = {path: day for header in headers.values() for path, day in header.finished.items()}
    shown = list[TextTable]()
    for table_id, table in zip(copy.tables, shown_tables(copy), strict=True):
        if {run.path for run in plan.table_runs(table_id)} & headers.keys():
            shown.append(replace(table.paper, signatures=table.full.signatures if table.full else []))
    yield f"{next((table.scale for table in shown if table.scale), '')} {_summary(headers, behind, finished)}".strip()
    yield from ("", _paragraph(into / PROSE / f"{name}.md"), "")
    yield from (markdown_table(table, level=3) for table in shown)
    runs = [run for run in plan.trained() if run.path in behind]
    if runs:
        curves = results / "curves.csv"
        write_curves(
            spec={"runs": curve_runs(plan, runs)}, runs=results / "runs", out=curves, figure=curves.with_suffix(".png")
        )
        images.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(curves.with_suffix(".png"), images / f"{name}.png")
        yield from ("", f"![Validation CIDEr-D after each epoch, by model and stage]({IMAGES}/{name}.png)", "")
    if claims := planned_claims(copy):
        verdicts = judge_claims(claims, results / "scores")
        judged = [claim_line(verdict, claims.scale) for verdict in verdicts if verdict.verdict != NOT_RUN]
        waiting = ", ".join(verdict.claim.id for verdict in verdicts if verdict.verdict == NOT_RUN)
        yield from ("### Claims of the paper", "")
        yield from (f"- {markdown_text(line)}" for line in [*judged, *([f"Not run: {waiting}"] if waiting else [])])
    if runs:
        yield from ("", markdown_table(_runs_table(plan, runs, behind, finished), level=3))
    yield from _missing(plan, headers, behind)


def _summary(headers: Mapping[str, Header], behind: Mapping[str, Training], finished: Mapping[str, str]) -> str:
    """Return what was run in one sentence."""
    seeds = ", ".join(map(str, sorted({header.seed for header in headers.values() if header.seed is not None})))
    hours = sum(training.cpu_seconds for training in behind.values()) / _HOUR
    took = f" that took {hours:,.1f} CPU hours and ended {_days(finished.values())}" if behind else ""
    of_seeds = f" with seeds {seeds}" if "," in seeds else f" with seed {seeds}" if seeds else ""
    return f"Published: {counted(len(headers), 'scored run')}{of_seeds}, of {counted(len(behind), 'training')}{took}."


def _days(dates: Collection[str]) -> str:
    return " to ".join(dict.fromkeys([min(dates), max(dates)]))


def _runs_table(
    plan: RunPlan, runs: Sequence[Run], behind: Mapping[str, Training], finished: Mapping[str, str]
) -> TextTable:
    """Return a line for each training stage of a row: its seeds, CPU hours, and days."""
    series: dict[str, list[Run]] = {}
    for run in runs:
        series.setdefault(series_of(run.path), []).append(run)
    lines, labels = list[Line](), plan.labels()
    for key in sorted(series, key=list(labels).index):
        hours = sum(behind[run.path].cpu_seconds for run in series[key]) / _HOUR
        seeds = ", ".join(str(run.seed) for run in series[key])
        texts = [
            STAGE_NAMES[series[key][0].stage],
            seeds,
            f"{hours:.2f}",
            _days([finished[run.path] for run in series[key]]),
        ]
        lines.append(Line(plain(labels[key]), list(map(Cell, texts))))
    table = TextTable("Runs", "", [(name, name) for name in _COLUMNS], "paper", [Block("", lines)])
    table.notes = ["CPU hours: hours of training times threads, without features, validation captions among them."]
    return table


def _missing(plan: RunPlan, headers: Mapping[str, Header], behind: Mapping[str, Training]) -> Iterator[str]:
    """Yield the rows that are not published with their hours, the shortest first: what more computing would tell."""
    # Parameters only scale steps that were not measured at their very size, whose hours are not shown.
    built = {
        inputs_of(run): int(behind[run.path].training["parameters"]) for run in plan.trained() if run.path in behind
    }
    parameters = {inputs_of(run): built.get(inputs_of(run), 1) for run in [*plan.trained(), *plan.scored()]}
    costs = Costs(plan, parameters, read_costs(*(path for path in [plan.params / TABLE] if path.exists())))
    took: dict[str, list[float]] = {}
    for path, training in behind.items():
        took.setdefault(series_of(path), []).append(training.cpu_seconds)
    labels, done, rows = plan.labels(), set(behind), list[tuple[float, str]]()
    for table_id, table in plan.tables.items():
        for row in table.rows:
            missing = [run for run in row_runs(row, plan.seeds[table_id]) if run.path not in headers]
            stages = dict.fromkeys(stage for run in missing for part in run.parts() for stage in plan.stages(part))
            todo = [stage for stage in stages if stage.path not in done]
            done |= {stage.path for stage in todo}
            if not missing:
                continue
            each = [
                fmean(took[series_of(run.path)]) if series_of(run.path) in took else _planned(costs, run)
                for run in todo
            ]
            hours = None if None in each else sum(filter(None, each)) / _HOUR
            seeds = ", ".join("ensemble" if run.members else str(run.seed) for run in missing)
            label = f"{plain(labels[series_of(missing[0].path)])}, {STAGE_NAMES[row.stage]} ({table_id}), seeds {seeds}"
            estimate = (
                "hours not known" if hours is None else f"{hours:.1f} CPU hours" if todo else "trained; to be scored"
            )
            rows.append((float("inf") if hours is None else hours, f"- {markdown_text(label)}: {estimate}"))
    if rows:
        yield from ("", "### What more computing would tell", "")
        yield "Rows that are planned and not published, the shortest first. Trainings that rows share count once."
        yield from ("", *(line for _, line in sorted(rows)))


def _planned(costs: Costs, run: Run) -> float | None:
    """Return the seconds of a training on one core by the table of measured steps, where its very steps are in it."""
    try:
        cost = costs.training(run)
    except UnknownSize:
        return None
    return next((each for name, each in cost.seconds.items() if cost.measured and name.endswith(ONE_CORE)), None)


def _paragraph(path: Path) -> str:
    """Return the paragraph of prose on one line; nothing where there is no such file."""
    with reading(path, damaged="save it as UTF-8"):
        text = path.read_text(encoding="utf-8").strip() if path.is_file() else ""
    if re.search(r"\n\s*\n|^#|^\|", text, re.MULTILINE):
        raise DataError(f"{path}: more than a paragraph; keep one, without headings and tables")
    return " ".join(text.split())
