"""The report of a profile, from what is there while trainings run, too:
one HTML file, and a PDF where LaTeX is."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import distributions
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

import numpy as np

from recap.core.checksums import check, record
from recap.core.documents import read_json
from recap.core.errors import RecapError, counted
from recap.core.files import atomic_path, write_text
from recap.core.hashing import commit
from recap.core.log import log
from recap.core.version import VERSION
from recap.data.corpus import SPLITS, Corpus
from recap.plan.claims import claims_spec
from recap.plan.plan import Plan
from recap.plan.run import Run, file_name, row_runs, series_of
from recap.plan.run_jobs import is_scored
from recap.report.pictures import ShownFigure, ShownSamples, figures, sampled_table
from recap.settings import Row, Table
from recap.statistics.claims import judge_claims
from recap.statistics.results import CellResult, RowResult, TableResult
from recap.statistics.scores import read_metrics
from recap.studies.analysis import StudyResult
from recap.studies.sheets import read_sheets
from recap.studies.tables import study_table
from recap.tables.claims import claims_table
from recap.tables.formats import filled, latex_table
from recap.tables.frame import table_frame
from recap.tables.styles import full_table, paper_table
from recap.tables.text import Block, Cell, Line, TextTable, columns_of, plain, text_line

HOUR = 3600
_COLUMNS = ("Stage", "Finished", "Planned", "Hours so far")
_PACKAGES = ("recap", "torch", "numpy", "scipy", "pycocoevalcap", "timm", "snakemake")
_OF_A_TRAINING = {
    "git_commit": "commit",
    "torch": "torch",
    "device": "device",
    "threads": "threads",
}
NOT_YET = "not run yet"
# end of the name of a table of one model as printed, as released and as recommended
_READINGS = "readings"
_SECONDS = 300  # that LaTeX may take


@dataclass(frozen=True)
class ShownTable:
    """A table of the report."""

    paper: TextTable  #: one line per row
    full: TextTable | None  #: every test; None where it is preliminary
    why: str = ""  #: why it is preliminary; "": it is not

    @property
    def title(self) -> str:
        """That of the table."""
        return self.paper.title


@dataclass(frozen=True)
class Origins:
    """What is behind the numbers: names and texts."""

    title: str
    lines: list[tuple[str, str]]


Shown = ShownTable | TextTable | ShownFigure | ShownSamples | Origins


@dataclass(frozen=True)
class Part:
    """One part of a section."""

    id: str
    title: str
    value: Shown


@dataclass(frozen=True)
class Section:
    """A section; its kind says how templates show it."""

    id: str
    title: str
    kind: str
    parts: list[Part]


def make_report(plan: Plan) -> Path:
    """Write a profile's ``report.html``, and ``report.pdf`` where LaTeX is installed."""
    done = progress(plan)
    own: list[ShownTable] = []
    readings: list[ShownTable] = []
    signatures: list[str] = []
    for table_id in plan.tables:
        table = shown_table(plan, table_id)
        (readings if table_id.endswith(_READINGS) else own).append(table)
        if table.full:
            signatures += table.full.signatures
    samples = [sampled_table(plan, table_id) for table_id in plan.tables]
    behind = Origins("Provenance", list(origins(plan, done, signatures)))
    sections = [
        _section("Claims", "texts", list(_claims(plan))),
        _section("Tables", "tables", own),
        _section("Readings", "tables", readings),
        _section("Human studies", "texts", list(_studies(plan))),
        _section("Figures", "figures", figures(plan)),
        _section("Samples", "samples", samples),
        _section("Cost so far", "texts", [done.cost]),
        _section("Provenance", "origins", [behind]),
    ]
    page = Path(plan.files.reports) / "report.html"
    shown = {
        "title": f"Report of {plan.profile.name}",
        "progress": done,
        "sections": [section for section in sections if section.parts],
    }
    # Every text is escaped: labels, captions and notes come from files.
    write_text(page, filled("report.html", "recap.report", **shown))
    log.info(f"{page}: {done.sentence}")
    pdf = page.with_suffix(".pdf")
    reason = _compile(shown, pdf)
    if reason:
        pdf.unlink(missing_ok=True)  # of an earlier report
        log.warning(f"{pdf}: not made, because {reason}; the page has everything")
    # Snakemake's records leave out the PDF, which only some machines make
    record(page, *([] if reason else [pdf]))
    return page


def _section(title: str, kind: str, values: Sequence[Shown]) -> Section:
    """Return a section; equal titles of its parts get a number."""
    name = title.lower().replace(" ", "-")
    section = Section(name, title, kind, [])
    alike = Counter[str]()
    for number, value in enumerate(values, 1):
        alike[value.title] += 1
        again = f" ({alike[value.title]})" if alike[value.title] > 1 else ""
        section.parts.append(Part(f"{name}-{number}", f"{value.title}{again}", value))
    return section


def _claims(plan: Plan) -> Iterator[TextTable]:
    """Yield the table of verdicts by the runs that are finished.

    None where the profile makes no paper's tables.
    """
    if claims := claims_spec(plan):
        yield claims_table(judge_claims(claims, Path(plan.files.results) / "scores"), claims.scale)


def _studies(plan: Plan) -> Iterator[TextTable]:
    """Yield the tables of the human studies that are evaluated."""
    for name in plan.studies:
        statistics = Path(plan.files.results) / "statistics" / "studies" / f"{name}.json"
        if statistics.is_file():
            check(statistics)
            sheets = read_sheets(Path(plan.files.reports) / "studies" / name / "sheets.json")
            yield study_table(sheets, read_json(statistics, StudyResult))


def shown_table(plan: Plan, table_id: str) -> ShownTable:
    """Return a table of a plan: a finished one with its tests, another as far as its runs are."""
    path = Path(plan.files.results) / "statistics" / f"{file_name(table_id)}.json"
    if not path.is_file():
        return _preliminary(plan, table_id, "its statistics are not made yet")
    check(path)
    try:
        frame = table_frame(plan.tables[table_id], read_json(path, TableResult))
    except RecapError:
        return _preliminary(plan, table_id, "its statistics are of an earlier version of the table")
    return ShownTable(paper_table(frame), full_table(frame))


def _preliminary(plan: Plan, table_id: str, why: str) -> ShownTable:
    """Return a table of the means of the runs that are finished, without tests."""
    outside = plan.tables[table_id].outside
    table = plan.tables[table_id].model_copy(update={"selections": [], "outside": []})
    rows = []
    tags = []
    for row in table.rows:
        runs = row_runs(row, plan.seeds[table_id])
        done = [run for run in runs if is_scored(plan, run)]
        partial = f"{len(done)} of {counted(len(runs), 'run')}" if done else NOT_YET
        tags.append("" if len(done) == len(runs) else partial)
        scores = [
            read_metrics(Path(plan.files.results) / "scores" / run.path).scores for run in done
        ]
        rows.append(_row(table, row, scores))
    statistics = TableResult.of(table, table_id, plan.seeds[table_id][:1], rows)
    paper = paper_table(table_frame(table, statistics))
    lines = paper.blocks[-1].lines
    for at, tag in enumerate(tags):
        lines[at] = replace(lines[at], tag=lines[at].tag or tag)
    for each in outside:
        lines.append(Line(plain(each.label), [Cell()] * len(table.columns), tag=NOT_YET))
    paper.legend.insert(0, "Means of the runs that are finished; no difference is tested.")
    paper.notes = ["In percent."]
    return ShownTable(paper, None, why)


def _row(table: Table, row: Row, scores: Sequence[dict[str, float | None]]) -> RowResult:
    """Return the statistics of a row of which only means are known."""
    cells = {}
    for column in table.columns:
        found = [each.get(column) for each in scores]
        values = [value for value in found if value is not None]
        cells[column] = CellResult(
            mean=fmean(values) if values else None,
            n=len(values),
            printed_percent=row.printed.get(column),
        )
    return RowResult.of(row, cells)


def _compile(shown: Mapping[str, object], out: Path) -> str:
    """Write the PDF, or return why there is none."""
    program = shutil.which("pdflatex")
    if program is None:
        return "pdflatex is not installed"
    with TemporaryDirectory(prefix="recap-pdf-") as name:
        folder = Path(name)

        def picture(file: Path) -> str:
            copy = folder / f"picture{len(list(folder.iterdir())) + 1}{file.suffix}"
            return shutil.copyfile(file, copy).name

        text = filled(
            "report.tex.j2", "recap.report", **shown, picture=picture, latex_table=latex_table
        )
        (folder / "report.tex").write_text(text, encoding="utf-8")
        words = [
            program,
            "-no-shell-escape",
            "-interaction=nonstopmode",
            "-halt-on-error",
            "report.tex",
        ]
        # equal reports give equal bytes
        fixed = {**os.environ, "SOURCE_DATE_EPOCH": "0", "FORCE_SOURCE_DATE": "1"}
        for _ in range(2):  # the second time with the pages of the contents
            try:
                done = subprocess.run(
                    words, cwd=folder, env=fixed, capture_output=True, timeout=_SECONDS, check=False
                )
            except subprocess.TimeoutExpired:
                return f"pdflatex did not finish in {_SECONDS} seconds"
            if done.returncode:
                output = done.stdout.decode("utf-8", "replace").splitlines()
                errors = (line for line in output if line.startswith("!"))
                return f"pdflatex failed ({next(errors, 'no reason given')})"
        with atomic_path(out) as temporary:
            shutil.copyfile(folder / "report.pdf", temporary)
    return ""


@dataclass(frozen=True)
class Trained:
    """What a training recorded of itself, in ``training.json``."""

    seconds: float
    features: str
    feature_hash: str
    git_commit: str = ""
    torch: str = ""
    device: str = ""
    threads: int | str = ""


@dataclass(frozen=True)
class Progress:
    """How far a profile is."""

    #: a line for each training stage: seeds finished and planned, hours taken
    cost: TextTable
    trained: list[Trained]  #: the finished trainings
    complete: bool  #: whether all trainings and evaluations are finished
    sentence: str  #: how many are


def progress(plan: Plan) -> Progress:
    """Return how far a plan is, from the files of its runs."""
    trained = plan.trained
    done: dict[Run, Trained] = {}
    for run in trained:
        file = Path(plan.files.results) / "runs" / run.path / "training.json"
        if file.is_file():
            done[run] = read_json(file, Trained)
    scored = plan.scored
    evaluated = sum(is_scored(plan, run) for run in scored)
    trainings = counted(len(trained), "training")
    evaluations = counted(len(scored), "evaluation")
    complete = len(done) == len(trained) and evaluated == len(scored)
    sentence = f"All {trainings} and {evaluations} finished."
    if not complete:
        sentence = (
            f"Partial: {len(done):,} of {trainings} and {evaluated:,} of {evaluations} finished."
        )
    return Progress(_cost(plan, trained, done), list(done.values()), complete, sentence)


def by_series(runs: Iterable[Run]) -> dict[str, list[Run]]:
    """Return the runs of each series."""
    series: dict[str, list[Run]] = {}
    for run in runs:
        series.setdefault(series_of(run.path), []).append(run)
    return series


def _cost(plan: Plan, trained: Sequence[Run], done: Mapping[Run, Trained]) -> TextTable:
    """Return the hours of finished trainings, a line for each stage of a row."""
    labels = plan.labels()
    order = list(labels.values())
    series = by_series(trained)
    names = sorted(series, key=lambda name: series[name][0].stage != "xe")
    lines = []
    for name in sorted(names, key=lambda name: order.index(labels[name])):
        runs = series[name]
        hours = [done[run].seconds / HOUR for run in runs if run in done]
        texts = [runs[0].stage, str(len(hours)), str(len(runs)), f"{sum(hours):.2f}"]
        lines.append(text_line(plain(labels[name]), texts))
    took = sum(each.seconds for each in done.values()) / HOUR
    cost = TextTable("Cost so far", "", columns_of(_COLUMNS), "paper")
    cost.legend = [f"The finished trainings took {took:,.2f} hours."]
    cost.blocks = [Block("", lines)]
    return cost


def origins(plan: Plan, done: Progress, signatures: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield what is behind the numbers: versions, commits, data sets, features, signatures."""
    installed = {each.metadata["Name"]: each.version for each in distributions()}
    versions = "".join(f", {name} {installed[name]}" for name in _PACKAGES if name in installed)
    yield (
        "Report made by",
        f"recap {VERSION}{versions}, Python {platform.python_version()}, commit {commit()}",
    )
    for key, name in _OF_A_TRAINING.items():
        counts = Counter(str(getattr(each, key)) for each in done.trained)
        del counts[""]
        values = [
            f"{value} ({counted(count, 'training')})" for value, count in counts.most_common()
        ]
        if values:
            yield f"Trainings: {name}", "; ".join(values)
    for dataset in plan.datasets:
        corpus = Path(plan.files.of("corpus", dataset=dataset)["corpus"])
        yield f"Data set {dataset}", _data_set(corpus)
    for features, digest in sorted({(each.features, each.feature_hash) for each in done.trained}):
        yield f"Features {features}", f"hash {digest}"
    yield from (("Signature", text) for text in dict.fromkeys(signatures))


def _data_set(path: Path) -> str:
    """Return the images of each split of a data set, and hashes of source and splits."""
    if not path.is_file():
        return "not read yet"
    corpus = Corpus.read(path)
    images = {split: len(np.unique(corpus.image_id[corpus.split == split])) for split in SPLITS}
    counts = ", ".join(f"{number:,} {split}" for split, number in images.items() if number)
    return f"{counts} images; source sha256 {corpus.source_sha256}, splits {corpus.split_hash}"
