"""What each training, evaluation and store of a plan costs: operations, seconds, memory, bytes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from recap.plan.amounts import Amounts
from recap.plan.inputs import used_stores
from recap.plan.paths import Stores
from recap.plan.run import Run
from recap.plan.run_plan import RunPlan
from recap.plan.step_costs import Estimate, StepCosts
from recap.plan.step_shapes import StepShape, decoding_shape, distinct, training_shape
from recap.plan.submissions import VAL, Submission
from recap.settings.datasets import COCO_PARTS

Parameters = Mapping[tuple[str, str, str], int]  # by `inputs_of`
_FLOAT = 4  # bytes
_TRAINED = 4  # copies of the parameters in memory: weights, gradients, two moments of Adam
_STATE = 3  # copies in a checkpoint: weights, two moments
_PER_IMAGE = 8 + 8 + 32 + 32  # bytes of an image's id, size and two digests in a store: of its vectors, of its sources
_OFFSET = 8  # bytes of an image in the index of each stream
_PAGE = 2**12  # bytes at most that are lost where an array of a store begins
_PAGES = 8  # of a store's header, the records of HDF5, and the arrays that every store has
_NUMBER_BYTES = {"float16": 2, "float32": 4}


@dataclass(frozen=True)
class TrainingCost:
    """One training."""

    steps: int  #: of the optimizer, if no patience ends it earlier
    gflop: float  #: 10^9 operations, of steps and validations
    memory: float  #: bytes of parameters, gradients, moments and of what a step keeps for its backward pass
    weights: int  #: bytes of the weights
    seconds: Mapping[str, float]  #: by the name of a machine that was measured
    measured: bool  #: its steps were measured at this very size


@dataclass(frozen=True)
class EvaluationCost:
    """The decoding of images by a scored run, without its metrics."""

    images: int
    gflop: float
    seconds: Mapping[str, float]


@dataclass(frozen=True)
class StoreCost:
    """One feature store.

    Attributes:
        dataset, features: its name; the data set is the one whose name its folder has.
    """

    dataset: str
    features: str
    images: int  #: in it
    all_images: int  #: of its data set
    bytes: int | None  #: of the file; None where a parameter file does not say how large its vectors are
    at_most: bool  #: pictures may have fewer vectors


def inputs_of(run: Run) -> tuple[str, str, str]:
    """Return what decides the number of a run's parameters."""
    return run.model, run.features, run.dataset


class Costs:
    """The costs of one plan.

    Args:
        plan: the plan.
        parameters: of each model.
        steps: what was measured.
    """

    def __init__(self, plan: RunPlan, parameters: Parameters, steps: StepCosts) -> None:
        self.plan, self.parameters, self.measured = plan, parameters, steps
        self.amounts = Amounts(plan)
        self._estimates: dict[str, Estimate] = {}

    def training(self, training: Run) -> TrainingCost:
        """Return the cost of a training, on one processor."""
        shape = training_shape(self.amounts, training)
        processes = self.plan.recipe(training.recipe).processes
        step, steps = self._of(shape, training), self.amounts.steps(training)
        beam = self.amounts.stage(training).validation_beam
        validation = self._of(decoding_shape(self.amounts, training, beam=beam), training)
        images = steps * shape.images * processes
        validated = self.amounts.validations(training) * self.amounts.counts(training.dataset).val
        weights = _FLOAT * self.parameters[inputs_of(training)]
        return TrainingCost(
            steps=steps,
            gflop=step.gflop * images + validation.gflop * validated,
            memory=_TRAINED * weights + 1e6 * step.saved_mb * shape.images,
            weights=weights,
            seconds=_sum((step, images), (validation, validated)),
            measured=step.measured,
        )

    def evaluation(self, scored: Run) -> EvaluationCost:
        """Return the cost of decoding the test images; all members of an ensemble decode each."""
        return self._decoding(scored, self.amounts.counts(scored.dataset).test)

    def submission(self, submission: Submission) -> EvaluationCost:
        """Return the cost of captions of the pictures that COCO's server scores."""
        images = COCO_PARTS[VAL] + self.amounts.counts(submission.test.dataset).test
        return self._decoding(submission.run, images)

    @cached_property
    def stores(self) -> list[StoreCost]:
        """The feature stores, with those that they are made from."""
        return [self._store(run) for run in used_stores(self.plan)]

    def store(self, dataset: str, features: str) -> StoreCost:
        """Return one of the feature stores."""
        return next(each for each in self.stores if (each.dataset, each.features) == (dataset, features))

    def shapes(self) -> list[StepShape]:
        """Return what can be measured for the plan: each once, one of every kind and work first."""
        runs, scored = self.plan.trained(), (run.parts()[0] for run in self.plan.scored())
        trainings = [training_shape(self.amounts, run) for run in runs]
        shapes = distinct([*trainings, *(decoding_shape(self.amounts, run) for run in scored)])
        groups: dict[tuple[str, str], list[StepShape]] = defaultdict(list)
        for shape in shapes:
            if shape.inputs.streams and shape.inputs.ids:
                groups[shape.model.kind, shape.work].append(shape)
        return [shape for group in groups.values() for shape in group[:1]] + [
            shape for group in groups.values() for shape in group[1:]
        ]

    def _decoding(self, scored: Run, images: int) -> EvaluationCost:
        of_one, models = scored.parts()[0], len(scored.parts())
        estimate = self._of(decoding_shape(self.amounts, of_one), of_one)
        return EvaluationCost(images, estimate.gflop * images * models, _sum((estimate, images * models)))

    def _store(self, store: Stores) -> StoreCost:
        dataset, features = store.dataset, store.features
        streams = self.amounts.stored(dataset, features)
        number = _NUMBER_BYTES[self.plan.get("features", features).dtype]
        images, everything = self.amounts.used_images(store), self.amounts.pictured(store).images
        of_vectors = (stream.vectors * (stream.width * number + stream.beside) for stream in streams.values())
        each = _PER_IMAGE + _OFFSET * len(streams) + sum(of_vectors)
        return StoreCost(
            dataset,
            features,
            images,
            everything,
            round(_PAGE * (_PAGES + 2 * len(streams)) + images * each) if streams else None,
            any(stream.at_most for stream in streams.values()),
        )

    def _of(self, shape: StepShape, run: Run) -> Estimate:
        if shape.key not in self._estimates:
            self._estimates[shape.key] = self.measured.of(shape, self.parameters[inputs_of(run)])
        return self._estimates[shape.key]


def state_bytes(cost: TrainingCost) -> int:
    """Return the bytes of a training's resumable state: the full state, and the best weights so far."""
    return (_STATE + 1) * cost.weights


def _sum(*parts: tuple[Estimate, float]) -> dict[str, float]:
    """Return the seconds of several parts on the machines that all of them were measured on."""
    machines = set.intersection(*(set(estimate.seconds) for estimate, _ in parts))
    ordered = [name for name in parts[0][0].seconds if name in machines]
    return {name: sum(estimate.seconds[name] * times for estimate, times in parts) for name in ordered}
