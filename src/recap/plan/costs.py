"""What the jobs of a plan cost, from a table of measured steps: operations, seconds, memory, disk,
limits."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property, lru_cache
from pathlib import Path

from pydantic import BaseModel, Field, NonNegativeFloat, PositiveFloat, PositiveInt

from recap.core.documents import read_json
from recap.core.errors import ConfigError
from recap.plan.amounts import Amounts, StepShape, UnknownSize, Work
from recap.plan.paths import used_stores
from recap.plan.profiles import uses_gpus
from recap.plan.run import VAL, Run, Submission
from recap.plan.run_plan import RunPlan
from recap.settings.base import Strict
from recap.settings.datasets import COCO_PARTS, PICTURES

TABLE = "measured_steps.json"  # in `params/`: the project's own
HERE = (
    Path("work") / "measured.json"
)  # of this folder's machine, which limits of cluster jobs count with, too
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


_MB = 10**6
_PROGRAM_MB = 1500  # Python with torch, a corpus and a part of a mapped store
_METRICS_MB, _SPICE_MB = 3000, 9000  # Java of METEOR and of the tokenizer; of SPICE
_PICTURES_MB = 6000  # a backbone or a detector, with a batch of pictures
_MINUTES = 30  # to begin, to read, to write
_LOGS_MB = 100  # and other small files
_LATER = 3  # times the estimate of a machine that was measured: others are slower
_ASSUMED_LATER = 10  # times the estimate of a GPU that was not measured
_CPU_TFLOPS = 0.01  # of a core, where no model of the kind was measured
_PICTURE_SECONDS = {True: 1.0, False: 20.0}  # a limit for one picture, on a GPU or not
_SCORING_MINUTES = 60
_CAPTION_MB, _PICTURE_MB, _READ_SECONDS = (
    0.004,
    1.0,
    0.1,
)  # of a corpus: more than any data set here takes


@dataclass(frozen=True)
class Need:
    """Limits of one job."""

    mem_mb: int  #: memory in MB
    runtime: int  #: minutes
    disk_mb: int  #: MB that it writes, the work that it leaves in case it is killed among them


# Where a parameter file does not say how large something is, and of trainings whose steps are not
# counted.
UNKNOWN = Need(mem_mb=16_000, runtime=24 * 60, disk_mb=20_000)


def _known_sizes(limits: Callable[..., Need]) -> Callable[..., Need]:
    """Compute the limits of a job once.

    They are wide where a parameter file does not say a size.
    """

    @lru_cache(None)
    def or_wide(*job: object) -> Need:
        try:
            return limits(*job)
        except UnknownSize:
            return UNKNOWN

    return or_wide


class Resources:
    """Limits of the jobs of a plan on a cluster, no predictions: a stopped training continues in
    the next job."""

    def __init__(self, costs: Costs) -> None:
        self.costs, self.plan = costs, costs.plan
        self.gpus = uses_gpus(self.plan.profile.execution)

    @_known_sizes
    def training(self, run: Run) -> Need:
        """Return the limits of a training."""
        cost, processes = self.costs.training(run), self.plan.recipe(run.recipe).processes
        memory = processes * (_PROGRAM_MB + cost.memory / _MB)
        return _need(memory, self._minutes(cost) / processes, (cost.weights + cost.state) / _MB)

    @_known_sizes
    def evaluation(self, run: Run, sent: Submission | None = None) -> Need:
        """Return the limits of an evaluation, its metrics among them, or of the captions that
        COCO's server is sent."""
        minutes = self._minutes(self.costs.evaluation(run, sent)) + _SCORING_MINUTES
        weights = sum(self.costs.training(self.plan.weights(part)).weights for part in run.parts())
        spice = "SPICE" in self.plan.recipe(run.recipe).evaluation.metrics
        memory = _PROGRAM_MB + 2 * weights / _MB + _METRICS_MB + (_SPICE_MB if spice else 0)
        return _need(memory, minutes, _PROGRAM_MB)

    @_known_sizes
    def store(self, dataset: str, features: str) -> Need:
        """Return the limits of a feature store, whose shards are there beside it at the end."""
        cost = next(
            each
            for each in self.costs.stores
            if (each.dataset, each.features) == (dataset, features)
        )
        settings = self.plan.get("features", features)
        pictures = cost.images * self.plan.get("datasets", dataset).pictures_per_image()
        seconds = pictures * _PICTURE_SECONDS[self.gpus or not settings.from_pictures]
        seconds /= self.plan.profile.execution.extraction_parts  # each part is a job
        disk = UNKNOWN.disk_mb if cost.bytes is None else 2 * cost.bytes / _MB
        return _need(
            _PICTURES_MB if settings.from_pictures else 2 * _PROGRAM_MB, seconds / 60, disk
        )

    @_known_sizes
    def corpus(self, dataset: str) -> Need:
        """Return the limits of a corpus, with the pictures that its reader packs."""
        counts = self.costs.counts(dataset)
        packed = (
            counts.images * _PICTURE_MB
            if PICTURES in self.plan.get("datasets", dataset).products
            else 0.0
        )
        megabytes = counts.captions * _CAPTION_MB
        return _need(
            _PROGRAM_MB + megabytes,
            counts.images * _READ_SECONDS / 60,
            _PROGRAM_MB + packed + megabytes,
        )

    def _minutes(self, cost: Cost) -> float:
        """Return the minutes of computing: of this kind of processor if one was measured, else
        assumed."""
        timed = [
            seconds
            for name, seconds in cost.seconds.items()
            if name.endswith(ONE_CORE) != self.gpus
        ]
        if timed:
            return _LATER * max(timed) / 60
        return (
            _ASSUMED_LATER * cost.gflop / 1e3 / (ASSUMED_TFLOPS if self.gpus else _CPU_TFLOPS) / 60
        )


def _need(memory: float, minutes: float, disk: float) -> Need:
    return Need(math.ceil(memory), _MINUTES + math.ceil(minutes), _LOGS_MB + math.ceil(disk))
