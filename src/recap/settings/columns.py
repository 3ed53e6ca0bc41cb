"""What a column of a table may be: a score, or a number that a training recorded and that is no metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from recap.core.plugins import load_plugins
from recap.settings.metrics import ScoreInfo, column_names, score_info


@dataclass(frozen=True)
class RunColumn:
    """A column that is no metric: it has no tests and no marks, and no value of it is better than another.

    Attributes:
        heading: name over the column.
        unit: of the numbers in tables, shown in the heading; empty: none.
        digits: decimal places of a value.
        file: JSON file in the folder of a training.
        key: of the number in that file.
        scale: what the recorded number is multiplied by.
        all_stages: the sum over the stages that a run went through, not the number of its last stage.
        spread: whether the standard deviation over seeds is shown.
    """

    heading: str
    unit: str
    digits: int
    file: str
    key: str
    scale: float = 1
    all_stages: bool = False
    spread: bool = False
    higher_is_better: ClassVar[None] = None


# Name in `columns` of a table -> what it shows. A plug-in may add its own.
RUN_COLUMNS = {
    "parameters": RunColumn("Params", "M", 1, "training.json", "parameters", scale=1e-6),
    "validation CIDEr-D": RunColumn("Val. CIDEr-D", "", 1, "training.json", "best_val_cider_d", scale=100, spread=True),
    "steps": RunColumn("Steps", "", 0, "training.json", "steps", all_stages=True),
    "training hours": RunColumn("Training", "h", 2, "training.json", "seconds", 1 / 3600, all_stages=True, spread=True),
}


def table_columns() -> list[str]:
    """Return all names that a column of a table may have."""
    return [*column_names(), *RUN_COLUMNS]


def column_info(name: str) -> ScoreInfo | RunColumn:
    """Return what tables must know of a column.

    Raises:
        KeyError: there is no such column.
    """
    load_plugins()
    return RUN_COLUMNS[name] if name in RUN_COLUMNS else score_info(name)


def heading(name: str) -> str:
    """Return what stands over a column: the name of a score, or heading and unit."""
    info = column_info(name)
    if isinstance(info, ScoreInfo):
        return name
    return f"{info.heading} ({info.unit})" if info.unit else info.heading
