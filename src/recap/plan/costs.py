"""What the jobs of a plan cost, from a table of measured steps: operations, seconds, memory, disk."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from pathlib import Path

from pydantic import BaseModel, Field, NonNegativeFloat, PositiveFloat, PositiveInt

from recap.core.documents import read_json
from recap.core.errors import ConfigError
from recap.plan.amounts import Amounts, StepShape, Work
from recap.plan.paths import used_stores
from recap.plan.run import VAL, Run, Submission
from recap.plan.run_plan import RunPlan
from recap.settings.base import Strict
from recap.settings.datasets import COCO_PARTS

TABLE = "measured_steps.json"  # in `params/`: the project's own
HERE = Path("work") / "measured.json"  # of this folder's machine
ASSUMED_TFLOPS = (
    10.0  # 10^12 operations per second of a GPU that was not measured; named wherever it is used
)
Parameters = Mapping[tuple[str, str, str], int]  # by `inputs_of`
# Where no model of the kind was measured: a product of a weight is 2 operations forwards and 4
# backwards.
_OPERATIONS = {"xe": 6, "scst": 8, "decode": 2}
_SAVED = 0.05  # bytes kept for the backward pass per operation: more than any model of the table
_FLOAT = 4  # bytes
ONE_CORE = ", one core"  # after the name of a processor
_TRAINED = 4  # copies of the parameters in memory: weights, gradients, two moments of Adam
_STATE = 3  # copies in a checkpoint: weights, two moments
_PER_IMAGE = (
    8 + 8 + 32 + 32
)  # bytes of an image's id, size and two digests in a store: of its vectors, of its sources
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
    key: str = Field(description="of the shape")
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

    @property
    def size(self) -> float:
        """What costs of a kind of model are in proportion to."""
        return self.parameters * (self.vectors + self.tokens)


@dataclass(frozen=True)
class Estimate:
    """What one image of a shape costs."""

    gflop: float  #: 10^9 floating-point operations
    saved_mb: float  #: 10^6 bytes kept for the backward pass
    seconds: Mapping[str, float]  #: by machine (`cpu, NAME`) of those that measured the kind
    #: of this very shape; else scaled from one of the same kind, or from the parameters alone
    measured: bool


class _Step(BaseModel):
    cost: StepCost
    compiled: bool


class _Measured(BaseModel):
    """What a plan reads of a file that `recap measure` writes."""

    tiny: bool
    steps: list[_Step]


def read_costs(*paths: Path) -> list[StepCost]:
    """Return the steps of files that `recap measure` wrote."""
    rows = []
    for path in paths:
        measured: _Measured = read_json(path, _Measured)
        if measured.tiny:
            raise ConfigError(
                f"{path}: made with --tiny, whose times mean nothing; measure without it"
            )
        rows += [step.cost for step in measured.steps if not step.compiled]
    return rows


def measured_costs(params: Path, measured: Path | None = None) -> list[StepCost]:
    """Return what was measured here, or a file in its place, then the table of the parameters, if
    they have one."""
    first = [measured] if measured else [HERE] if HERE.exists() else []
    return read_costs(*first, *(path for path in [params / TABLE] if path.exists()))


def estimate(rows: Sequence[StepCost], shape: StepShape, parameters: int) -> Estimate:
    """Return what an image of a shape costs: as measured, as the nearest of its kind and work, or
    by its parameters."""
    # Costs are in proportion to parameters x (vectors + tokens). Of two equal rows the first
    # counts.
    size = parameters * (shape.inputs.vectors + shape.tokens)
    same = [row for row in rows if (row.kind, row.work) == (shape.model.kind, shape.work)]
    if not same:
        gflop = _OPERATIONS[shape.work] * size / 1e9
        return Estimate(
            gflop, _SAVED * gflop * 1e3 if shape.work != "decode" else 0.0, {}, measured=False
        )
    nearest = sorted(same, key=lambda row: (row.key != shape.key, abs(math.log(row.size / size))))
    ratios = [1.0 if row.key == shape.key else size / row.size for row in nearest]
    seconds: dict[str, float] = {}
    for row, ratio in zip(nearest, ratios, strict=True):
        machine = f"{row.machine}{ONE_CORE}" if row.device == "cpu" else row.machine
        seconds.setdefault(machine, row.seconds * ratio)
    first, ratio = nearest[0], ratios[0]
    return Estimate(first.gflop * ratio, first.saved_mb * ratio, seconds, first.key == shape.key)


@dataclass(frozen=True)
class Cost:
    """A training on one processor, or the decoding of images by a scored run, which has no steps
    and no metrics."""

    gflop: float  #: 10^9 operations, of steps and validations
    seconds: Mapping[str, float]  #: by the name of a machine that was measured
    steps: int = 0  #: of the optimizer, if no patience ends it earlier
    #: bytes of parameters, gradients, moments and of what a step keeps for its backward pass
    memory: float = 0.0
    weights: int = 0  #: bytes of the weights
    measured: bool = False  #: its steps were measured at this very size

    @property
    def state(self) -> int:
        """Bytes of a training's resumable state: the full state, and the best weights so far."""
        return (_STATE + 1) * self.weights


@dataclass(frozen=True)
class StoreCost:
    """One feature store."""

    dataset: str  #: the one whose name its folder has
    features: str
    images: int  #: in it
    all_images: int  #: of its data set
    bytes: (
        int | None
    )  #: of the file; None where a parameter file does not say how large its vectors are
    at_most: bool  #: pictures may have fewer vectors


def inputs_of(run: Run) -> tuple[str, str, str]:
    """Return what decides the number of a run's parameters."""
    return run.model, run.features, run.dataset


class Costs(Amounts):
    """The costs of one plan, from its amounts, the parameters of each model and the steps that were
    measured."""

    def __init__(self, plan: RunPlan, parameters: Parameters, measured: Sequence[StepCost]) -> None:
        super().__init__(plan)
        self.parameters, self.measured = parameters, measured
        self._estimates: dict[str, Estimate] = {}

    def training(self, training: Run) -> Cost:
        """Return the cost of a training."""
        shape, stage = self.training_shape(training), self.stage(training)
        step = self._of(shape, training)
        validation = self._of(self.decoding_shape(training, beam=stage.validation_beam), training)
        steps = self.steps(training)
        images = steps * shape.images * self.plan.recipe(training.recipe).processes
        validations = math.ceil(stage.epochs / stage.validate_every) + (training.stage == "scst")
        validated = validations * self.counts(training.dataset).val
        weights = _FLOAT * self.parameters[inputs_of(training)]
        both = [name for name in step.seconds if name in validation.seconds]  # machines
        return Cost(
            gflop=step.gflop * images + validation.gflop * validated,
            seconds={
                name: step.seconds[name] * images + validation.seconds[name] * validated
                for name in both
            },
            steps=steps,
            memory=_TRAINED * weights + 1e6 * step.saved_mb * shape.images,
            weights=weights,
            measured=step.measured,
        )

    def evaluation(self, scored: Run, sent: Submission | None = None) -> Cost:
        """Return the cost of decoding the test images, or what COCO's server is sent.

        All members decode each.
        """
        images = (
            COCO_PARTS[VAL] + self.counts(sent.test.dataset).test
            if sent
            else self.counts(scored.dataset).test
        )
        members = scored.parts()
        image, times = self._of(self.decoding_shape(members[0]), members[0]), images * len(members)
        return Cost(
            image.gflop * times, {name: each * times for name, each in image.seconds.items()}
        )

    def _of(self, shape: StepShape, run: Run) -> Estimate:
        if shape.key not in self._estimates:
            self._estimates[shape.key] = estimate(
                self.measured, shape, self.parameters[inputs_of(run)]
            )
        return self._estimates[shape.key]

    @cached_property
    def stores(self) -> list[StoreCost]:
        """The feature stores, with those that they are made from."""
        return [self._store(run) for run in used_stores(self.plan)]

    def _store(self, store: Run) -> StoreCost:
        streams, images = self.stored(store.dataset, store.features), self.used_images(store)
        number = _NUMBER_BYTES[self.plan.get("features", store.features).dtype]
        of_vectors = (
            stream.vectors * (stream.width * number + stream.beside) for stream in streams.values()
        )
        each = _PER_IMAGE + _OFFSET * len(streams) + sum(of_vectors)
        size = round(_PAGE * (_PAGES + 2 * len(streams)) + images * each) if streams else None
        at_most = any(stream.at_most for stream in streams.values())
        return StoreCost(
            store.dataset, store.features, images, self.pictured(store).images, size, at_most
        )

    def shapes(self) -> list[StepShape]:
        """Return what can be measured for the plan: each once, one of every kind and work first."""
        trainings = [self.training_shape(run) for run in self.plan.trained()]
        decodings = [self.decoding_shape(run.parts()[0]) for run in self.plan.scored()]
        every = {
            shape.key: shape
            for shape in [*trainings, *decodings]
            if shape.inputs.streams and shape.inputs.ids
        }
        first = {(shape.model.kind, shape.work): key for key, shape in reversed(every.items())}
        return sorted(
            every.values(), key=lambda shape: shape.key != first[shape.model.kind, shape.work]
        )
