"""What steps were measured to cost, as a table with the machine named, and what others cost by comparison."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from datetime import date
from math import log
from pathlib import Path

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from recap.core.errors import ConfigError
from recap.core.files import write_text
from recap.plan.step_shapes import StepShape, Work
from recap.settings.base import Strict
from recap.settings.params import validate

TABLE = "measured_steps.csv"  # in `params/`, and below `work/` for what was timed here
TIMED = Path("work") / TABLE
ASSUMED_TFLOPS = 10.0  # 10^12 operations per second of a GPU that was not measured; named wherever it is used
# Where no model of the kind was measured: a product of a weight is 2 operations forwards and 4 backwards.
_OPERATIONS = {"xe": 6, "scst": 8, "decode": 2}
_SAVED = 0.05  # bytes kept for the backward pass per operation: more than any model of the table


def cost_tables(params: Path) -> list[Path]:
    """Return the tables of measured costs: what was timed in this folder, then the project's own."""
    return [TIMED, params / TABLE]


class StepCost(Strict):
    """What one image costs in a step of one shape, measured once on one machine; a line of the table."""

    kind: str = Field(description="kind of model")
    work: Work
    key: str = Field(description="of the shape")
    parameters: PositiveInt
    vectors: PositiveFloat = Field(description="of an image")
    tokens: PositiveFloat = Field(description="of an image")
    images: PositiveInt = Field(description="of the step that was measured")
    gflop: PositiveFloat = Field(description="10^9 floating-point operations per image, counted")
    saved_mb: NonNegativeFloat = Field(description="10^6 bytes per image kept for the backward pass, counted")
    seconds: PositiveFloat = Field(description="per image, timed")
    device: str = Field(description="cpu (one thread) or cuda")
    machine: str = Field(description="name of the processor")
    torch: str
    measured_on: date


class Estimate(Strict):
    """What one image of a shape costs."""

    gflop: float  #: 10^9 floating-point operations
    saved_mb: float  #: 10^6 bytes kept for the backward pass
    seconds: dict[str, float] = {}  #: by machine (`cpu, NAME`) of those that measured the kind
    measured: bool = False  #: of this very shape; else scaled from one of the same kind, or from the parameters alone


class StepCosts:
    """Measured costs.

    Args:
        rows: of all tables, those that count before others first.
    """

    def __init__(self, rows: Iterable[StepCost]) -> None:
        self.rows = list(rows)

    @classmethod
    def read(cls, paths: Sequence[Path]) -> StepCosts:
        """Read tables; those that do not exist are left out."""
        return cls(row for path in paths if path.exists() for row in _rows(path))

    def of(self, shape: StepShape, parameters: int) -> Estimate:
        """Return what an image of a shape costs.

        A shape that was not measured costs as much as the nearest one of its kind and work, in proportion to
        parameters x (vectors + tokens); of a kind that was not measured, operations are a multiple of these.
        """
        size = parameters * (shape.inputs.vectors + shape.tokens)
        same = [row for row in self.rows if (row.kind, row.work) == (shape.model.kind, shape.work)]
        nearest = sorted(same, key=lambda row: (row.key != shape.key, abs(log(_size(row) / size))))
        if not nearest:
            gflop = _OPERATIONS[shape.work] * size / 1e9
            return Estimate(gflop=gflop, saved_mb=_SAVED * gflop * 1e3 if shape.work != "decode" else 0.0)
        first = nearest[0]
        seconds: dict[str, float] = {}
        for row in nearest:
            seconds.setdefault(machine_name(row), row.seconds * self._ratio(row, shape, size))
        ratio = self._ratio(first, shape, size)
        return Estimate(
            gflop=first.gflop * ratio,
            saved_mb=first.saved_mb * ratio,
            seconds=seconds,
            measured=first.key == shape.key,
        )

    def _ratio(self, row: StepCost, shape: StepShape, size: float) -> float:
        return 1.0 if row.key == shape.key else size / _size(row)


def machine_name(row: StepCost) -> str:
    """Return where a line was measured, as the plan prints it."""
    return f"{row.machine}, one core" if row.device == "cpu" else row.machine


def add_costs(path: Path, rows: Iterable[StepCost]) -> None:
    """Add lines to a table; they take the place of those of the same shape and machine."""
    old = _rows(path) if path.exists() else []
    by_shape = {(row.key, row.device, row.machine): row for row in [*old, *rows]}
    text = io.StringIO()
    writer = csv.DictWriter(text, list(StepCost.model_fields), lineterminator="\n")
    writer.writeheader()
    ordered = sorted(by_shape.values(), key=lambda row: (row.kind, row.work, row.parameters, row.key, row.machine))
    writer.writerows(row.model_dump(mode="json") for row in ordered)
    write_text(path, text.getvalue())


def _rows(path: Path) -> list[StepCost]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            return [validate(StepCost, dict(row), f"{path} line {reader.line_num}") for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"{path}: cannot be read as CSV ({error}); restore it, or delete it") from error


def _size(row: StepCost) -> float:
    return row.parameters * (row.vectors + row.tokens)
