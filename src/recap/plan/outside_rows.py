"""Rows of tables that are not trained: what is scored, by which metrics, and where the scores are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from recap.plan.run import file_name
from recap.settings import Row, Table

if TYPE_CHECKING:
    from recap.plan.run_plan import RunPlan


RELEASED_FILES = ("config.yaml", "model.safetensors", "vocabulary.json")  # as `recap import-checkpoint` writes them


@dataclass(frozen=True)
class ScoredFile:
    """A file of captions, or the folder of released weights, that a row of a table names.

    Attributes:
        features, recipe: those of the baseline; released weights read these features and decode by this recipe.
    """

    table: str  #: id of the table
    dataset: str  #: whose test images it describes: that of the table's baseline
    captions: str | None  #: the file, below the profile's inputs; None: the captions are made by released weights
    released: str | None  #: their folder, below the profile's inputs
    features: str
    recipe: str
    metrics: tuple[str, ...]  #: those of the baseline's evaluation
    path: str  #: folder of its scores below ``scores/``

    @property
    def files(self) -> list[str]:
        """What is read, below the profile's inputs."""
        return [self.captions] if self.captions else [f"{self.released}/{name}" for name in RELEASED_FILES]


def outside_path(table: Table, name: str, row_id: str) -> str:
    """Return the folder below ``scores/`` of a row of the table whose files have a name."""
    return f"{_baseline(table).dataset}/outside/{name}/{row_id}"


def scored_files(plan: RunPlan, table_id: str) -> list[ScoredFile]:
    """Return the files of captions, and the released weights, that the rows of a table name."""
    table = plan.tables[table_id]
    baseline = _baseline(table)
    metrics = tuple(plan.recipe(baseline.recipe).evaluation.metrics)
    return [
        ScoredFile(
            table=table_id,
            dataset=baseline.dataset,
            captions=row.captions,
            released=row.released,
            features=baseline.features,
            recipe=baseline.recipe,
            metrics=metrics,
            path=outside_path(table, file_name(table_id), row.id),
        )
        for row in table.outside
    ]


def _baseline(table: Table) -> Row:
    return next(row for row in table.rows if row.id == table.baseline)
