"""A training that is cut short, for a debugger and for the first hour with a new model: few steps, or one batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from shutil import rmtree
from typing import Unpack

from recap.core.device import select_device
from recap.core.log import log
from recap.data.caption_ids import CaptionIds
from recap.settings import ExecutionFile, RunSpec
from recap.training.batches import Batch, CaptionBatches
from recap.training.distributed import init_group
from recap.training.job import TrainingFiles, build_training, finish, load_inputs, run_name
from recap.training.objectives.logged import Logged
from recap.training.step import Objective

OVERFIT_STEPS = 100
VALIDATED = 50  # images


@dataclass(frozen=True)
class ShortTraining:
    """The loss of each step, and images that the training has seen or was validated with."""

    losses: list[float]
    images: list[int]


class FirstBatches(CaptionBatches):
    """The first batches of a training as one epoch, or its first batch again and again."""

    def __init__(self, batches: CaptionBatches, *, steps: int, one_batch: bool) -> None:
        super().__init__(
            features=batches.features,
            captions=batches.captions,
            images_per_batch=batches.images_per_batch,
            seed=batches.seed,
        )
        self._steps, self._one_batch = steps, one_batch

    def __len__(self) -> int:
        return self._steps

    def order(self, epoch: int) -> list[list[int]]:
        """Return the image ids of each batch; whole epochs follow each other until there are enough."""
        first = super().order(0)
        if self._one_batch:
            return [first[0]] * self._steps
        epochs = -(-self._steps // len(first))
        return [batch for number in range(epochs) for batch in super(FirstBatches, self).order(number)][: self._steps]


def train_short(
    *, spec: RunSpec, execution: ExecutionFile, state: Path, out: Path, **files: Unpack[TrainingFiles]
) -> ShortTraining:
    """Train a few steps from the start and write the run folder, whose `config.yaml` says that they were few.

    Args:
        spec, out, files: as `recap.training.job.train` takes them.
        execution: how many steps, and whether on one batch; a validation is of few images.
        state: folder of the state, which begins anew.
    """
    group = init_group(select_device(execution.device))
    inputs = load_inputs(spec, execution, group, **files)
    inputs = replace(inputs, validation=CaptionIds.of(dict(islice(inputs.validation.items(), VALIDATED))))
    spec = spec.model_copy(update={"stage_settings": spec.stage_settings.model_copy(update={"epochs": 1})})
    if group.is_main:
        rmtree(state, ignore_errors=True)
    group.barrier()
    training = build_training(spec, execution, inputs, state, group)
    steps, one_batch = execution.max_steps or OVERFIT_STEPS, execution.overfit_one_batch
    training.identity["settings"] |= {"max_steps": steps, "overfit_one_batch": one_batch}
    training.batches = FirstBatches(training.batches, steps=steps, one_batch=one_batch)
    losses: list[float] = []
    training.step.objective = _recorded(training.step.objective, losses)
    finish(spec, execution, inputs, training, training.run(), out)
    if group.is_main:
        log.info(f"{run_name(spec)}: loss {losses[0]:.4f} at step 1, {losses[-1]:.4f} at step {len(losses)}")
    group.destroy()
    return ShortTraining(losses, training.batches.order(0)[0] if one_batch else list(inputs.validation))


def _recorded(objective: Objective, losses: list[float]) -> Callable[[Batch, int], Logged]:
    """Return the objective, which also notes its losses."""

    def recorded(batch: Batch, epoch: int) -> Logged:
        logged = objective(batch, epoch)
        losses.append(logged.loss.item())
        return logged

    return recorded
