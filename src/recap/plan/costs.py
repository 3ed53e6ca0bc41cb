"""What the trainings of a plan cost, from measured steps, and how large its feature stores are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from pydantic import BaseModel, Field, NonNegativeFloat, PositiveFloat, PositiveInt

from recap.core.documents import read_json
from recap.core.errors import ConfigError
from recap.plan.plan import Plan
from recap.plan.run import Run
from recap.plan.stores import Store
from recap.plan.workload import StepShape, Work, Workload
from recap.settings.base import Strict

TABLE = "measured_steps.json"  # in `params/`: the project's own
# 10^12 operations per second of a GPU that was not measured; named wherever it is used
ASSUMED_TFLOPS = 10.0
_FLOAT = 4  # bytes
# bytes of an image's id, size and two digests in a store: of its vectors, of its sources
_PER_IMAGE = 8 + 8 + 32 + 32
_OFFSET = 8  # bytes of an image in the index of each stream
_PAGE = 2**12  # bytes at most that are lost where an array of a store begins
_PAGES = 8  # of a store's header, the records of HDF5, and the arrays that every store has
_NUMBER_BYTES = {"float16": 2, "float32": 4}


class StepCost(Strict):
    """What one image costs in a step of one shape, measured once on one machine.

    A line of the table.
    """

    kind: str = Field(description="kind of model")
    work: Work
    sizes: dict[str, int] = Field(description="the whole numbers among the model's settings")
    parameters: PositiveInt
    vectors: PositiveFloat = Field(description="of an image")
    tokens: PositiveFloat = Field(description="of an image")
    images: PositiveInt = Field(description="of the step that was measured")
    gflop: PositiveFloat = Field(description="10^9 floating-point operations per image, counted")
    saved_mb: NonNegativeFloat = Field(
        description="10^6 bytes per image kept for the backward pass, counted"
    )
    seconds: PositiveFloat = Field(description="per image, timed")
    device: str = Field(description="cpu (one thread) or cuda")
    machine: str = Field(description="name of the processor")
    torch: str
    measured_on: date


class _Step(BaseModel):
    cost: StepCost
    compiled: bool


class _Measured(BaseModel):
    """What a plan reads of a file that `recap measure` writes."""

    tiny: bool
    steps: list[_Step]


def read_costs(path: Path) -> list[StepCost]:
    """Return the plain steps of a file that `recap measure` wrote."""
    measured: _Measured = read_json(path, _Measured)
    if measured.tiny:
        raise ConfigError(f"{path}: made with --tiny, whose times mean nothing; measure without it")
    return [step.cost for step in measured.steps if not step.compiled]


@dataclass(frozen=True)
class Cost:
    """A training in one process, with its validations."""

    seconds: float
    weights: int  #: bytes


class Costs(Workload):
    """The costs of one plan, by steps that were measured.

    Of the machine that they were measured on, or of a GPU that computes `tflops` x 10^12 operations
    a second, of which only their operations count.
    """

    def __init__(self, plan: Plan, measured: Sequence[StepCost], tflops: float | None) -> None:
        super().__init__(plan)
        self.measured, self.tflops = measured, tflops

    @property
    def machine(self) -> str:
        """What the seconds are of."""
        if self.tflops:
            return f"a GPU of {self.tflops:g} TFLOP/s"
        first = self.measured[0]
        return f"one core of {first.machine}" if first.device == "cpu" else first.machine

    def training(self, training: Run) -> Cost | None:
        """Return the cost of a training.

        None where no step, or no decoding, of a model of its kind and sizes was measured.
        """
        stage = self.stage(training)
        of_validations = self.decoding_shape(training, beam=stage.validation_beam)
        step, decoding = self.step_seconds(training), self._nearest(of_validations)
        if step is None or decoding is None:
            return None
        processes = self.plan.settings.recipe(training.recipe).processes
        validations = math.ceil(stage.epochs / stage.validate_every) + (training.stage == "scst")
        validated = validations * self.counts(training.dataset).val
        seconds = self.steps(training) * processes * step
        seconds += validated * self._seconds(decoding, of_validations)
        return Cost(seconds, _FLOAT * decoding.parameters)

    def step_seconds(self, training: Run) -> float | None:
        """Return the seconds of a step of one process.

        None where no step of a model of its kind and sizes was measured.
        """
        shape = self.training_shape(training)
        step = self._nearest(shape)
        return None if step is None else shape.images * self._seconds(step, shape)

    def _nearest(self, shape: StepShape) -> StepCost | None:
        """Return the measured step of a model of the same sizes whose input is nearest in size."""
        same = (shape.model.kind, shape.work, shape.sizes)
        rows = [row for row in self.measured if (row.kind, row.work, row.sizes) == same]
        return min(rows, key=lambda row: abs(math.log(_ratio(row, shape))), default=None)

    def _seconds(self, row: StepCost, shape: StepShape) -> float:
        """Return the seconds of an image, in proportion to its vectors and tokens."""
        seconds = row.gflop / self.tflops / 1e3 if self.tflops else row.seconds
        return seconds * _ratio(row, shape)

    def store(self, store: Store) -> StoreSize:
        """Return the size of a feature store."""
        streams, images = self.stored(store.dataset, store.features), self.used_images(store)
        if not streams:
            return StoreSize(None, at_most=False)
        number = _NUMBER_BYTES[store.settings.dtype]
        each: float = _PER_IMAGE + _OFFSET * len(streams)
        for stream in streams.values():
            each += stream.vectors * (stream.width * number + stream.beside)
        pages = _PAGE * (_PAGES + 2 * len(streams))
        at_most = any(stream.at_most for stream in streams.values())
        return StoreSize(round(pages + images * each), at_most)


@dataclass(frozen=True)
class StoreSize:
    """The size of a feature store."""

    #: of the file; None where a parameter file does not say how large its vectors are
    bytes: int | None
    at_most: bool  #: pictures may have fewer vectors


def _ratio(row: StepCost, shape: StepShape) -> float:
    return (shape.inputs.vectors + shape.tokens) / (row.vectors + row.tokens)


def costs_of(plan: Plan, file: Path | None = None, tflops: float | None = None) -> Costs:
    """Return the costs of a plan on the machine of a file that `recap measure` wrote.

    Without one, or with `tflops`, they are those of an assumed GPU.
    """
    if file is not None and tflops is None:
        return Costs(plan, read_costs(file), None)
    measured = [] if file is None else read_costs(file)
    if (table := plan.params / TABLE).exists():
        measured += read_costs(table)
    return Costs(plan, measured, tflops or ASSUMED_TFLOPS)
