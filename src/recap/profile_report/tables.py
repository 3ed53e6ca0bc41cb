"""The tables of a report: one line per row, from statistics, or from the runs that are finished so far."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from recap.core.checksums import check
from recap.core.documents import read_json
from recap.core.errors import RecapError, counted
from recap.plan.paths import Paths
from recap.plan.run import file_name, row_runs
from recap.plan.run_plan import RunPlan
from recap.profile_report.progress import is_scored
from recap.reporting.content import NONE, Content, number, table_content
from recap.reporting.markdown import footnotes
from recap.reporting.paper import PaperRow, PaperTable, Score, paper_table, short_name
from recap.reporting.text import Footnotes, plain
from recap.settings import Row, Table
from recap.settings.tables import column_info, heading
from recap.statistics.scores import read_metrics

NOT_YET = "not run yet"


@dataclass(frozen=True)
class ShownTable:
    """A table of the report."""

    name: str  #: of its files
    paper: PaperTable  #: one line per row
    content: Content | None  #: every test; None where it is preliminary
    why: str = ""  #: why it is preliminary; "": it is not

    @property
    def headings(self) -> list[tuple[str, str]]:
        """Short and full name of each column."""
        return [(" ".join(short_name(column)), heading(column)) for column in self.paper.columns]

    @property
    def notes(self) -> list[str]:
        """The sentences below the table."""
        legend = [sentence for sentence in self.paper.legend if not sentence.startswith("Above the line")]
        return [*legend, *footnotes(self.paper.footnotes), self.paper.note]


def shown_tables(plan: RunPlan) -> list[ShownTable]:
    """Return every table of a plan: finished ones with their tests, others as far as their runs are."""
    return [_shown(plan, table_id) for table_id in plan.tables]


def _shown(plan: RunPlan, table_id: str) -> ShownTable:
    table, name = plan.tables[table_id], file_name(table_id)
    path = Path(Paths(plan).results) / "statistics" / f"{name}.json"
    if not path.is_file():
        return _preliminary(plan, table_id, "its statistics are not made yet")
    check(path)
    statistics = read_json(path)
    try:
        content = table_content(table, statistics)
    except RecapError:
        return _preliminary(plan, table_id, "its statistics are of an earlier version of the table")
    return ShownTable(name, paper_table(table, statistics), content)


def _preliminary(plan: RunPlan, table_id: str, why: str) -> ShownTable:
    """Return a table of the means of the runs that are finished, without tests."""
    table, seeds = plan.tables[table_id], plan.seeds[table_id]
    rows = [_row(plan, table, row, seeds) for row in table.rows]
    rows += [PaperRow(plain(row.label), [Score(NONE)] * len(table.columns), NOT_YET, NOT_YET) for row in table.outside]
    legend = ["Means of the runs that are finished; no difference is tested."]
    paper = PaperTable(
        plain(table.title), plain(table.short_scale), list(table.columns), rows, legend, "In percent.", Footnotes()
    )
    return ShownTable(file_name(table_id), paper, None, why)


def _row(plan: RunPlan, table: Table, row: Row, seeds: list[int]) -> PaperRow:
    paths, runs = Paths(plan), row_runs(row, seeds)
    done = [run for run in runs if is_scored(paths, run)]
    scores = [read_metrics(Path(paths.results) / "scores" / run.path).scores for run in done]
    cells = []
    for column in table.columns:
        info = column_info(column)
        values = [value for each in scores if (value := each.get(column)) is not None]
        cells.append(Score(number(info.scale * fmean(values) if values else None, info.digits)))
    origin = "" if len(done) == len(runs) else f"{len(done)} of {counted(len(runs), 'run')}" if done else NOT_YET
    return PaperRow(plain(row.label), cells, origin, origin)
