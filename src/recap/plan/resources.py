"""What a job may need, for the cluster that runs it: memory, time and disk, from the costs of its plan.

They are limits, not predictions: a training that is stopped at its limit saves its state and continues in the next job.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from recap.plan.amounts import UnknownSize
from recap.plan.cost import Costs, EvaluationCost, TrainingCost, state_bytes
from recap.plan.load import uses_gpus
from recap.plan.run import Run
from recap.plan.run_spec import nodes
from recap.plan.step_costs import ASSUMED_TFLOPS
from recap.plan.submissions import Submission
from recap.settings.datasets import PICTURES

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
_CAPTION_MB, _PICTURE_MB, _READ_SECONDS = 0.004, 1.0, 0.1  # of a corpus: more than any data set here takes


@dataclass(frozen=True)
class Need:
    """Limits of one job."""

    mem_mb: int  #: memory in MB, of each node
    runtime: int  #: minutes
    disk_mb: int  #: MB that it writes, the work that it leaves in case it is killed among them


# Where a parameter file does not say how large something is.
UNKNOWN = Need(mem_mb=16_000, runtime=24 * 60, disk_mb=20_000)


class Resources:
    """The limits of the jobs of a plan.

    Args:
        costs: of the plan.
    """

    def __init__(self, costs: Costs) -> None:
        self.costs, self.plan = costs, costs.plan
        self.gpus = uses_gpus(self.plan.profile.execution)
        self.training, self.evaluation = lru_cache(None)(self._training), lru_cache(None)(self._evaluation)
        self.store = lru_cache(None)(self._store)

    def _training(self, run: Run) -> Need:
        """Return the limits of a training."""
        try:
            cost = self.costs.training(run)
        except UnknownSize:
            return UNKNOWN
        processes = self.plan.recipe(run.recipe).processes
        memory = processes / nodes(self.plan, run.recipe) * (_PROGRAM_MB + cost.memory / _MB)
        return _need(memory, self._minutes(cost) / processes, (cost.weights + state_bytes(cost)) / _MB)

    def _evaluation(self, run: Run) -> Need:
        """Return the limits of an evaluation, its metrics among them."""
        return self._decoding(run, self.costs.evaluation)

    def submission(self, submission: Submission) -> Need:
        """Return the limits of captions for COCO's server."""
        return self._decoding(submission.run, lambda _: self.costs.submission(submission))

    def _decoding(self, run: Run, cost_of: Callable[[Run], EvaluationCost]) -> Need:
        try:
            cost = cost_of(run)
            weights = sum(self.costs.training(self.plan.weights(part)).weights for part in run.parts())
        except UnknownSize:
            return UNKNOWN
        spice = "SPICE" in self.plan.recipe(run.recipe).evaluation.metrics
        memory = _PROGRAM_MB + 2 * weights / _MB + _METRICS_MB + (_SPICE_MB if spice else 0)
        return _need(memory, self._minutes(cost) + _SCORING_MINUTES, _PROGRAM_MB)

    def _store(self, dataset: str, features: str) -> Need:
        """Return the limits of a feature store, whose shards are there beside it at the end."""
        try:
            cost = self.costs.store(dataset, features)
        except UnknownSize:
            return UNKNOWN
        settings = self.plan.get("features", features)
        pictures = cost.images * self.plan.get("datasets", dataset).pictures_per_image()
        seconds = pictures * _PICTURE_SECONDS[self.gpus or not settings.from_pictures]
        seconds /= self.plan.profile.execution.extraction_parts  # each part is a job
        disk = UNKNOWN.disk_mb if cost.bytes is None else 2 * cost.bytes / _MB
        return _need(_PICTURES_MB if settings.from_pictures else 2 * _PROGRAM_MB, seconds / 60, disk)

    def corpus(self, dataset: str) -> Need:
        """Return the limits of a corpus, with the pictures that its reader packs."""
        try:
            counts = self.costs.amounts.counts(dataset)
        except UnknownSize:
            return UNKNOWN
        packed = counts.images * _PICTURE_MB if PICTURES in self.plan.get("datasets", dataset).products else 0.0
        megabytes = counts.captions * _CAPTION_MB
        return _need(_PROGRAM_MB + megabytes, counts.images * _READ_SECONDS / 60, _PROGRAM_MB + packed + megabytes)

    def weights(self, _: object) -> Need:
        """Return the limits of a training of a backbone or of a language model, whose steps are not counted."""
        return UNKNOWN

    def _minutes(self, cost: TrainingCost | EvaluationCost) -> float:
        """Return the minutes of computing: of this kind of processor if one was measured, else assumed."""
        timed = {name: seconds for name, seconds in cost.seconds.items() if name.endswith("one core") != self.gpus}
        if timed:
            return _LATER * max(timed.values()) / 60
        return _ASSUMED_LATER * cost.gflop / 1e3 / (ASSUMED_TFLOPS if self.gpus else _CPU_TFLOPS) / 60


def _need(memory: float, minutes: float, disk: float) -> Need:
    return Need(math.ceil(memory), _MINUTES + math.ceil(minutes), _LOGS_MB + math.ceil(disk))
