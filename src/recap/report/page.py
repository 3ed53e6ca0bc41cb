"""The report of a profile, from what is there while trainings run, too: one HTML file, and a PDF where LaTeX is."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

from recap.core.checksums import check, record
from recap.core.documents import read_json
from recap.core.errors import RecapError, counted
from recap.core.files import atomic_path, write_text
from recap.core.log import log
from recap.plan.jobs import planned_claims, planned_studies
from recap.plan.paths import Paths
from recap.plan.run import file_name, row_runs
from recap.plan.run_plan import RunPlan
from recap.report.pictures import figures, sampled_table
from recap.report.progress import origins, progress
from recap.settings import Row, Table
from recap.statistics.claims import judge_claims
from recap.statistics.scores import read_metrics
from recap.studies.sheets import read_sheets
from recap.studies.tables import study_table
from recap.tables.claims import claims_table
from recap.tables.formats import environment, latex_table
from recap.tables.frame import table_frame
from recap.tables.styles import full_table, paper_table
from recap.tables.text import Cell, Line, TextTable, plain

NOT_YET = "not run yet"
_READINGS = "readings"  # end of the name of a table of one model as printed, as released and as recommended
_SECONDS = 300  # that LaTeX may take


@dataclass(frozen=True)
class ShownTable:
    """A table of the report."""

    paper: TextTable  #: one line per row
    full: TextTable | None  #: every test; None where it is preliminary
    why: str = ""  #: why it is preliminary; "": it is not


def make_report(plan: RunPlan) -> Path:
    """Write ``report.html`` into the folder of a profile's reports, and ``report.pdf`` where LaTeX is installed."""
    done, tables = progress(plan), shown_tables(plan)
    titled = {table_id: (table.paper.title, table) for table_id, table in zip(plan.tables, tables, strict=True)}
    signatures = [text for table in tables if table.full for text in table.full.signatures]
    samples = [(plain(table.title), sampled_table(plan, table_id)) for table_id, table in plan.tables.items()]
    sections = [
        _section("Claims", "texts", [(table.title, table) for table in judged_claims(plan)]),
        _section("Tables", "tables", [each for name, each in titled.items() if not name.endswith(_READINGS)]),
        _section("Readings", "tables", [each for name, each in titled.items() if name.endswith(_READINGS)]),
        _section("Human studies", "texts", [(table.title, table) for table in _studies(plan)]),
        _section("Figures", "figures", [(figure.title, figure) for figure in figures(plan)]),
        _section("Samples", "samples", samples),
        _section("Cost so far", "texts", [("Cost so far", done.cost)]),
        _section("Provenance", "origins", [("Provenance", list(origins(plan, done, signatures)))]),
    ]
    page = Path(Paths(plan).reports) / "report.html"
    shown = {"title": f"Report of {plan.profile.name}", "progress": done}
    shown["sections"] = [section for section in sections if section["parts"]]
    # Every text is escaped: labels, captions and notes come from files.
    template = environment("html", "recap.report").get_template("report.html")
    write_text(page, template.render(shown))
    log.info(f"{page}: {done.sentence}")
    pdf = page.with_suffix(".pdf")
    program = shutil.which("pdflatex")
    reason = "pdflatex is not installed" if program is None else _compile(program, shown, pdf)
    if reason:
        pdf.unlink(missing_ok=True)  # of an earlier report
        log.warning(f"{pdf}: not made, because {reason}; the page has everything")
    record(page, *([] if reason else [pdf]))  # Snakemake's records leave out the PDF, which only some machines make
    return page


def _section(title: str, kind: str, parts: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return a section: its kind says how templates show its parts, whose equal titles get a number."""
    name, titles, shown = title.lower().replace(" ", "-"), [each for each, _ in parts], []
    for number, (each, value) in enumerate(parts, 1):
        alike = titles[:number].count(each)
        shown.append({"id": f"{name}-{number}", "title": each if alike == 1 else f"{each} ({alike})", "value": value})
    return {"id": name, "title": title, "kind": kind, "parts": shown}


def judged_claims(plan: RunPlan) -> list[TextTable]:
    """Return the table of verdicts by the runs that are finished; none where the profile makes no paper's tables."""
    claims = planned_claims(plan)
    if claims is None:
        return []
    return [claims_table(judge_claims(claims, Path(Paths(plan).results) / "scores"), claims.scale)]


def _studies(plan: RunPlan) -> Iterator[TextTable]:
    """Yield the tables of the human studies that are evaluated."""
    paths = Paths(plan)
    for name in planned_studies(plan):
        statistics = Path(paths.results) / "statistics" / "studies" / f"{name}.json"
        if statistics.is_file():
            check(statistics)
            sheets = read_sheets(Path(paths.reports) / "studies" / name / "sheets.json")
            yield study_table(sheets, read_json(statistics))


def shown_tables(plan: RunPlan) -> list[ShownTable]:
    """Return every table of a plan: finished ones with their tests, others as far as their runs are."""
    return [_shown(plan, table_id) for table_id in plan.tables]


def _shown(plan: RunPlan, table_id: str) -> ShownTable:
    path = Path(Paths(plan).results) / "statistics" / f"{file_name(table_id)}.json"
    if not path.is_file():
        return _preliminary(plan, table_id, "its statistics are not made yet")
    check(path)
    try:
        frame = table_frame(plan.tables[table_id], read_json(path))
    except RecapError:
        return _preliminary(plan, table_id, "its statistics are of an earlier version of the table")
    return ShownTable(paper_table(frame), full_table(frame))


def _preliminary(plan: RunPlan, table_id: str, why: str) -> ShownTable:
    """Return a table of the means of the runs that are finished, without tests."""
    table, paths = plan.tables[table_id].model_copy(update={"selections": []}), Paths(plan)
    rows, tags = [], []
    for row in table.rows:
        runs = row_runs(row, plan.seeds[table_id])
        done = [run for run in runs if paths.is_scored(run)]
        partial = f"{len(done)} of {counted(len(runs), 'run')}" if done else NOT_YET
        tags.append("" if len(done) == len(runs) else partial)
        rows.append(_row(table, row, [read_metrics(Path(paths.results) / "scores" / run.path).scores for run in done]))
    statistics = {
        "table": table_id,
        "columns": list(table.columns),
        "baseline": table.baseline,
        "images": 0,
        "seeds": plan.seeds[table_id][:1],
        "family": {"made": 0, "units": []},
        "rows": rows,
        **{key: [row.model_dump() for row in getattr(table, key)] for key in ("quoted", "not_run")},
    }
    paper = paper_table(table_frame(table.model_copy(update={"outside": []}), statistics))
    lines = paper.blocks[-1].lines
    lines[:] = [replace(line, tag=line.tag or tag) for line, tag in zip(lines, tags, strict=True)]
    lines += [Line(plain(row.label), [Cell()] * len(table.columns), tag=NOT_YET) for row in table.outside]
    paper.legend.insert(0, "Means of the runs that are finished; no difference is tested.")
    paper.notes = ["In percent."]
    return ShownTable(paper, None, why)


def _row(table: Table, row: Row, scores: Sequence[dict[str, float | None]]) -> dict[str, Any]:
    """Return the statistics of a row of which only means are known."""
    cells = {}
    for column in table.columns:
        values = [value for each in scores if (value := each.get(column)) is not None]
        mean = {"mean": fmean(values) if values else None, "n": len(values), "reason": None}
        cells[column] = {**mean, "printed_percent": row.printed.get(column), "comparison": None}
    return {**row.model_dump(), "as_printed": row.as_printed, "cells": cells, "signatures": {}}


def _compile(program: str, shown: dict[str, Any], out: Path) -> str:
    """Write the PDF, or return why there is none."""
    with TemporaryDirectory(prefix="recap-pdf-") as name:
        folder = Path(name)

        def picture(file: Path) -> str:
            copy = folder / f"picture{len(list(folder.iterdir())) + 1}{file.suffix}"
            return shutil.copyfile(file, copy).name

        template = environment("tex", "recap.report").get_template("report.tex.j2")
        text = template.render(**shown, picture=picture, latex_table=latex_table)
        (folder / "report.tex").write_text(text, encoding="utf-8")
        words = [program, "-no-shell-escape", "-interaction=nonstopmode", "-halt-on-error", "report.tex"]
        fixed = {**os.environ, "SOURCE_DATE_EPOCH": "0", "FORCE_SOURCE_DATE": "1"}  # equal reports give equal bytes
        for _ in range(2):  # the second time with the pages of the contents
            try:
                done = subprocess.run(words, cwd=folder, env=fixed, capture_output=True, timeout=_SECONDS, check=False)
            except subprocess.TimeoutExpired:
                return f"pdflatex did not finish in {_SECONDS} seconds"
            if done.returncode:
                output = done.stdout.decode("utf-8", "replace").splitlines()
                return f"pdflatex failed ({next((line for line in output if line.startswith('!')), 'no reason given')})"
        with atomic_path(out) as temporary:
            shutil.copyfile(folder / "report.pdf", temporary)
    return ""
