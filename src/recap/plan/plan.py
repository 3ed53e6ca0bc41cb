"""A plan: the rows of all tables of a profile at its scale, and the runs that they need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from recap.core.errors import ConfigError, UnknownName, nearest
from recap.core.process import uses_gpus
from recap.plan.figures import PlannedFigure
from recap.plan.files import Files
from recap.plan.named_settings import NamedSettings
from recap.plan.run import (
    Run,
    ScoredFile,
    Submission,
    file_name,
    labels,
    row_labels,
    row_runs,
    series_of,
    unique_labels,
)
from recap.plan.scale_text import Scaled, sentences
from recap.settings import Profile, Row, Scale, Study, Table, Titles
from recap.settings.figures import Figure
from recap.settings.tables import Claim


@contextmanager
def asked_for_by(who: str) -> Iterator[None]:
    """Add to an error which table, row, study or profile asks for what is refused."""
    try:
        yield
    except ConfigError as error:
        raise type(error)(f"{error} (asked for by {who})") from error


@dataclass(frozen=True)
class ResolvedRow:
    """A row of a table at the scale of a profile."""

    table: str  #: id of the table
    row: Row  #: what is trained, by names that are parts of paths, and what the table prints
    runs: tuple[Run, ...]  #: those that are scored: one of each seed, or the ensemble of all
    #: data set and features of the pictures whose captions a server scores
    test_pictures: tuple[str, str] | None = None

    def of_seeds(self, seeds: list[int]) -> ResolvedRow:
        """Return the row with runs of other seeds."""
        return replace(self, runs=tuple(row_runs(self.row, seeds)))

    def submissions(self) -> Iterator[Submission]:
        """Yield what COCO's server is sent of the row."""
        if self.test_pictures is None:
            return
        dataset, features = self.test_pictures
        name = f"{file_name(self.table)}_{self.row.id.replace('.', '_')}"
        for run in self.runs:
            algorithm = name if len(self.runs) == 1 else f"{name}_seed{run.seed}"
            test = replace(run, dataset=dataset, features=features)
            yield Submission(self.table, algorithm, run, test)


@dataclass(frozen=True)
class Plan:
    """Everything that a profile needs, resolved and checked before the first job.

    Equal rows are trained once.
    """

    profile: Profile
    settings: NamedSettings
    files: Files
    scale: Scale
    titles: Titles
    #: by id (``mine/t3``), at the profile's scale, their rows with parts of paths
    tables: dict[str, Table]
    rows: list[ResolvedRow]  #: of all tables, in their order
    seeds: dict[str, list[int]]  #: of the rows of each table
    source_of_seeds: dict[str, str | None]  #: the profile or a key of the scale; None: the table
    scaled: dict[str, Scaled]  #: what is said under each table about its scale
    #: caption files and released weights that rows of tables name
    scored_files: list[ScoredFile]
    alone: str | None = None  #: the row (``mine/t3/wide``) of which alone everything is made
    figures: dict[str, Figure] = field(default_factory=dict)  #: scores over a setting
    model_figures: list[PlannedFigure] = field(default_factory=list)
    studies: dict[str, Study] = field(default_factory=dict)  #: by the name of their files
    claims: list[Claim] = field(default_factory=list)  #: of the papers whose tables are here

    @property
    def params(self) -> Path:
        """The folder of the parameter files."""
        return self.settings.params

    @property
    def gpus(self) -> int:
        """GPUs of one process."""
        return int(uses_gpus(self.profile.execution.device))

    def row(self, row_id: str) -> ResolvedRow:
        """Return the row of ``mine/t3/wide``."""
        rows = {f"{each.table}/{each.row.id}": each for each in self.rows}
        if row_id not in rows:
            raise UnknownName(f"there is no row {row_id!r}; {nearest(row_id, rows)}")
        return rows[row_id]

    def table_rows(self, table_id: str) -> list[ResolvedRow]:
        """Return the rows of a table."""
        return [each for each in self.rows if each.table == table_id]

    def table_runs(self, table_id: str) -> list[Run]:
        """Return the scored runs of a table, each once."""
        return _runs_of(self.table_rows(table_id))

    def table_scored(self, table_id: str) -> list[Run | ScoredFile]:
        """Return all that is scored for a table."""
        files = [each for each in self.scored_files if each.table == table_id]
        return [*self.table_runs(table_id), *files]

    @cached_property
    def scored(self) -> list[Run]:
        """The runs whose captions are scored, each once."""
        return _runs_of(self.rows if self.alone is None else [self.row(self.alone)])

    @cached_property
    def submissions(self) -> list[Submission]:
        """What COCO's server is sent; nothing of a lone row."""
        sent: list[Submission] = []
        for row in self.rows if self.alone is None else ():
            sent += row.submissions()
        return sent

    @cached_property
    def trained(self) -> list[Run]:
        """Every training stage in use: of scored runs and, for SCST, their first stages."""
        trained: set[Run] = set()
        for run in self.scored:
            for part in run.parts():
                trained.update(self.stages(part))
        return sorted(trained)

    @cached_property
    def shown(self) -> list[Run]:
        """The scored runs, and those on pictures that a server scores: their data sets and
        features are read."""
        return sorted({*self.scored, *(each.test for each in self.submissions)})

    @cached_property
    def datasets(self) -> list[str]:
        """The names of the data sets in use."""
        return sorted({run.dataset for run in self.shown})

    def first_stage(self, run: Run) -> Run:
        """Return a run's cross-entropy training; recipes that differ in SCST alone share it."""
        recipe = self.settings.shared_recipe(run.recipe, "xe", "processes")
        return replace(run, recipe=recipe, stage="xe")

    def training_of(self, run: Run) -> Run:
        """Return the training whose weights a scored run of one seed uses.

        Recipes that only decode otherwise share.
        """
        if run.stage == "xe":
            return self.first_stage(run)
        keys = ("xe", "scst", "processes", "evaluation.max_length")
        return replace(run, recipe=self.settings.shared_recipe(run.recipe, *keys))

    def stages(self, run: Run) -> list[Run]:
        """Return the trainings that the weights of a scored run of one seed went through."""
        return list(dict.fromkeys([self.first_stage(run), self.training_of(run)]))

    def below(self, folder: Path, seeds: Mapping[str, list[int]]) -> Plan:
        """Return the plan with results below another folder, and with other seeds of its tables."""
        return replace(
            self,
            files=Files(self.profile, f"{folder}/"),
            seeds=dict(seeds),
            rows=[row.of_seeds(seeds[row.table]) for row in self.rows],
        )

    def scale_text(self, table_ids: Sequence[str]) -> str:
        """Return the scale of tables, with the notes and the source of the first."""
        tables = [self.scaled[table_id] for table_id in table_ids]
        return sentences(tables, scale=self.scale, titles=self.titles)

    def labels(self) -> dict[str, str]:
        """Return the label of every series of runs, in the order of the tables' rows."""
        trained = [series_of(run.path) for run in self.trained]
        return labels(self._rows(), trained)

    def short_labels(self, runs: Sequence[Run]) -> dict[str, str]:
        """Return the label of the series of some runs in a figure
        of these alone, in the order of the tables' rows."""
        shown = {series_of(run.path) for run in runs}
        every = row_labels(self._rows(), sorted(shown))
        own = {series: label for series, label in every.items() if series in shown}
        return unique_labels(own, self.titles.short)

    def _rows(self) -> dict[str, list[dict[str, Any]]]:
        return {file_name(name): list(map(vars, each.rows)) for name, each in self.tables.items()}


def _runs_of(rows: Iterable[ResolvedRow]) -> list[Run]:
    runs: set[Run] = set()
    for row in rows:
        runs.update(row.runs)
    return sorted(runs)
