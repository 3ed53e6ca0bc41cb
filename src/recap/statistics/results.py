"""The numbers of a result table as records: rows, their cells, and the tests behind these.

They are written once as JSON, by :func:`recap.statistics.compare.compare_table`, and read with
``read_json(path, TableResult)``. None is a number that there is not; the record says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import Field

from recap.core.documents import read_json
from recap.settings import OutsideRow, Row, Table
from recap.settings.base import Strict
from recap.settings.tables import NotRunRow, PExplanations, QuotedRow

Value = TypeVar("Value")
# Left out of the JSON where it says nothing, so that files of other tables are unchanged.
OmittedIfEmpty = Annotated[Value, Field(exclude_if=lambda value: not value)]


@dataclass(frozen=True)
class Paired:
    """Tests of the differences d of n images; None where the images allow no value, with the
    reason.

    With mean m and standard deviation s (ddof 1) of d::

        t = m / (s / sqrt(n)),  n - 1 degrees of freedom        d_z = m / s  (Cohen)
        low, high = m -+ t_0.975 * s / sqrt(n)

    ``p`` is the two-sided p of t. ``p_wilcoxon`` is that of the signed-rank test without zero
    differences: exact for up to 50 differences without ties, else normal.
    """

    images: int
    mean_difference: float
    low: float | None = None
    high: float | None = None
    t: float | None = None
    p: float | None = None
    d_z: float | None = None
    p_wilcoxon: float | None = None
    reason: str | None = None
    p_holm: float | None = None
    p_wilcoxon_holm: float | None = None


@dataclass(frozen=True)
class TTest:
    """A two-sided t-test; None where there is no value, with the reason."""

    t: float | None = None
    degrees: float | None = None
    p: float | None = None
    reason: str | None = None
    p_holm: float | None = None


@dataclass(frozen=True)
class Comparison:
    """One metric of a row against the baseline row: the difference, fraction of 1, and its tests.

    ``p_holm`` of the tests and ``mark`` are of a family:
    :func:`recap.statistics.comparison.correct`.
    """

    difference: float
    paired: Paired  #: over images
    welch: TTest  #: over runs
    joint: TTest  #: over both
    mark: int = 0  #: 1 or -1 where the row is significantly better or worse
    reason: None = None
    lower_is_better: OmittedIfEmpty[bool] = False

    @property
    def tests(self) -> dict[str, Paired | TTest]:
        """The tests by what they are over."""
        return {"images": self.paired, "runs": self.welch, "both": self.joint}


@dataclass(frozen=True)
class NoComparison:
    """Why one metric of two rows is not tested, with the difference where both have it."""

    reason: str
    difference: float | None = None
    paired: None = None
    welch: None = None
    joint: None = None
    mark: int = 0


@dataclass(frozen=True)
class Pair:
    """One metric of two rows, by their ids: the second minus the first."""

    metric: str
    first: str
    second: str
    comparison: Comparison | NoComparison


@dataclass(frozen=True)
class CellResult:
    """One column of a row; what is no percentage is a fraction of 1, or as trainings recorded."""

    values: dict[str, int | float] = field(default_factory=dict)  #: by seed
    mean: float | None = None
    sd: float | None = None  #: ddof 1
    n: int = 0
    reason: str | None = None  #: why a run lacks it
    source: str | None = None  #: who gave the scores, where recap did not
    printed_percent: float | None = None
    printed_sd_percent: float | None = None
    difference_to_printed_percent: float | None = None
    comparison: Comparison | NoComparison | None = None  #: None: of the baseline row, no metric


@dataclass(frozen=True)
class Candidate:
    """A row that may be chosen: its scores by seed, fractions of 1, and their mean."""

    row: str
    label: str
    validation_cider_d: dict[int, float]
    mean: float


@dataclass(frozen=True)
class Choice:
    """What was chosen for one line of a table, and among what."""

    id: str
    label: str
    chosen: str
    rule: str
    candidates: list[Candidate]


@dataclass(frozen=True)
class RowResult:
    """One row; of what is not trained here all settings but the data set are None."""

    id: str
    label: str
    cells: dict[str, CellResult]  #: by column
    dataset: str | None = None
    subset: str | None = None
    features: str | None = None
    model: str | None = None
    recipe: str | None = None
    stage: str | None = None
    as_printed: bool = False  #: with data and settings of the print
    printed_p: dict[str, float] = field(default_factory=dict)
    p_explained_by: OmittedIfEmpty[PExplanations] = field(default_factory=dict)
    doubt: dict[str, str] = field(default_factory=dict)
    note: str = ""
    signatures: dict[str, str] = field(default_factory=dict)  #: by seed
    captions: OmittedIfEmpty[str | None] = None  #: where they are from, of a row from outside
    released: OmittedIfEmpty[bool] = False  #: they are of released weights
    choice: OmittedIfEmpty[Choice | None] = None  #: by which the row was chosen

    @classmethod
    def of(cls, row: Row | OutsideRow | QuotedRow, cells: dict[str, CellResult]) -> RowResult:
        """Return a row of a table with its cells; its settings have the same names."""
        values = _shared(row, cls)
        if isinstance(row, OutsideRow):
            values |= {"captions": row.source, "released": bool(row.released)}
        return cls(**values, cells=cells)


@dataclass(frozen=True)
class Power:
    """How many seeds would mark the largest unmarked difference of a metric; None: too many."""

    metric: str
    row: str  #: label
    difference: float
    seeds: int | None


@dataclass(frozen=True)
class Family:
    """The comparisons of a table, which are corrected together."""

    made: int = 0
    marked: int = 0
    units: list[str] = field(default_factory=list)  #: of the tests that can have a p
    tests: dict[str, int] = field(default_factory=dict)  #: test -> comparisons that have its p
    power: Power | None = None
    correction: str = "Holm"
    over: str = "all comparisons of this table with its baseline row, rows times columns"


@dataclass(frozen=True)
class TableResult:
    """All numbers of a table."""

    table: str
    title: str
    scale: str
    baseline: str  #: id of a row
    columns: list[str]
    seeds: list[int]
    rows: list[RowResult]
    short_scale: str = ""
    printed_on: str | None = None
    doubts: OmittedIfEmpty[list[str]] = field(default_factory=list)
    images: int = 0
    family: Family = field(default_factory=Family)
    notes: list[str] = field(default_factory=list)
    quoted: list[QuotedRow] = field(default_factory=list)
    not_run: list[NotRunRow] = field(default_factory=list)
    outside: OmittedIfEmpty[list[RowResult]] = field(default_factory=list)
    selected: OmittedIfEmpty[list[RowResult]] = field(default_factory=list)
    pairs: OmittedIfEmpty[list[Pair]] = field(default_factory=list)  #: corrected together

    @classmethod
    def of(
        cls, table: Table, name: str, seeds: Sequence[int], rows: list[RowResult]
    ) -> TableResult:
        """Return a table with the numbers of its trained rows."""
        values = _shared(table, cls) | {"table": name, "seeds": list(seeds), "rows": rows}
        return cls(**values | {"outside": [], "pairs": []})  # as results, they come later


def _shared(settings: Strict, record: Any) -> dict[str, Any]:
    """Return what settings say that a record has under the same names."""
    names = {each.name for each in fields(record)}
    return {name: value for name, value in settings if name in names}


def read_tables(results: Path) -> list[TableResult]:
    """Return the statistics of all tables of a profile, from ``results/<profile>``."""
    files = sorted((results / "statistics").glob("[!.]*.json"))
    return [read_json(file, TableResult) for file in files]
