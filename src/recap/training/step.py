"""One optimizer step: learning rate, loss, gradient over all processes, clipping, update."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from recap.core.device import mixed
from recap.core.documents import write_json
from recap.core.errors import TrainingError, first_line
from recap.decoding.step import NonFiniteLogits
from recap.models.base import Captioner
from recap.runs.folder import Counters
from recap.settings import Stage
from recap.training.batches import Batch
from recap.training.distributed import Group
from recap.training.objectives.logged import Logged
from recap.training.optim import build_optimizer, clip_gradients, finite_loss, set_rate

Objective = Callable[[Batch, int], Logged]  # batch, epoch from 0 -> loss and numbers to log


class OptimizerStep:
    """Updates the weights with one batch; a step whose numbers are lost is noted in the folder `state`."""

    def __init__(
        self,
        *,
        model: Captioner,
        objective: Objective,
        stage: Stage,
        d_model: int,
        group: Group,
        state: Path,
    ) -> None:
        self.model, self.objective, self.stage, self.d_model = model, objective, stage, d_model
        self.group, self.state = group, state
        self.optimizer = build_optimizer(model.parameters(), stage)
        self._logged: list[str] | None = None  # names that the objective logs, once they are known

    @property
    def rate(self) -> float:
        """The learning rate of the last step."""
        return float(self.optimizer.param_groups[0]["lr"])

    def __call__(self, batch: Batch, progress: Counters, *, steps: int) -> dict[str, float]:
        """Do the step after `progress` with this process's shard; return means over all processes, the loss first."""
        set_rate(
            self.optimizer,
            self.stage.schedule,
            step=progress.step + 1,
            epoch=progress.epoch,
            lr_drops=progress.lr_drops,
            d_model=self.d_model,
            steps=steps,
        )
        try:
            logged, loss, weight = self._backward(batch, progress)
        except RuntimeError as error:
            if progress.step or self.stage.precision != "bf16" or isinstance(error, torch.OutOfMemoryError):
                raise
            raise TrainingError(
                f"the first step fails in bf16 ({first_line(error)}); set `precision: float32` in the recipe"
            ) from error
        self.group.all_reduce_gradients(self.model.parameters())
        norm = clip_gradients(self.model.parameters(), self.stage)
        try:
            value = finite_loss(loss, norm, progress.step + 1)  # all is queued: a GPU is never without work before this
        except FloatingPointError as error:
            raise self._stopped(batch, progress, f"{error}; its images are {batch.image_ids}") from error
        self.optimizer.step()
        return self._means({"loss": value, **{name: float(number) for name, number in logged.numbers.items()}}, weight)

    def _backward(self, batch: Batch, progress: Counters) -> tuple[Logged, Tensor, float]:
        """Take the gradient of the shard's part of the loss; return what was logged, the loss, the shard's weight."""
        logged = self._loss(batch, progress)
        num_tokens, num_added = self.group.all_reduce_sum(logged.num_tokens, logged.num_added)
        weight = logged.num_tokens / num_tokens  # of this process's shard of the batch
        loss = logged.loss * weight  # the mean over the tokens of all processes; one process alone multiplies by 1
        if logged.added is not None:
            loss = loss + logged.added * (logged.num_added / num_added)
        self.optimizer.zero_grad(set_to_none=True)
        if batch.image_ids:
            loss.backward()
            loss = loss / weight
        return logged, loss, weight

    def _loss(self, batch: Batch, progress: Counters) -> Logged:
        """Return the batch's loss and its numbers; a shard without images weighs nothing."""
        if not batch.image_ids:
            return Logged(torch.zeros((), device=self.group.device), 0)
        with mixed(self.stage.precision, self.group.device):
            try:
                return self.objective(batch.to(self.group.device), progress.epoch)
            except NonFiniteLogits as error:
                images = [batch.image_ids[index] for index in error.images]
                raise self._stopped(batch, progress, f"{error}; its images are {images}") from error

    def _means(self, numbers: dict[str, float], weight: float) -> dict[str, float]:
        """Average logged numbers over processes, each by the weight of its shard."""
        if self.group.size == 1:
            return numbers
        if self._logged is None:  # the main process has images in every batch, so it knows all names
            self._logged = self.group.of_main(list(numbers))
        if weight and set(numbers) != set(self._logged):
            some = ", ".join(sorted(set(numbers) ^ set(self._logged)))
            raise TrainingError(f"the objective logs {some} in some steps only; let it log the same in every step")
        means = self.group.all_reduce_sum(*(weight * numbers.get(key, 0.0) for key in self._logged))
        return dict(zip(self._logged, means, strict=True))

    def _stopped(self, batch: Batch, progress: Counters, reason: str) -> TrainingError:
        """Write down the step and the images at which numbers were lost, and return the error that says so."""
        path = self.state / "failed_step.json"
        at = {"epoch": progress.epoch + 1, "batch": progress.batch + 1, "step": progress.step + 1}
        write_json(path, {**at, "image_ids": batch.image_ids, "learning_rate": self.rate, "reason": reason})
        return TrainingError(
            f"{reason}; lower the learning rate (now {self.rate:.3g}) or clip the gradient; the step is not taken, and "
            f"{path} names its images"
        )
