"""The training loop: one plain loop for both stages that continues, bit for bit, where it was killed."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from recap.core.atomic import atomic_path, write_json
from recap.core.config import Stage
from recap.core.errors import TrainingError
from recap.core.log import progress, say, time_left
from recap.decoding.step import NotANumber
from recap.models.base import Captioner
from recap.training.batches import Batch, CaptionBatches
from recap.training.checkpoint import load_state, save_state
from recap.training.distributed import Group
from recap.training.optim import build_optimizer, clip_gradients, learning_rate

NUMBERS = ("reward", "reward_sd", "reward_greedy", "reward_beam", "length")  # what objectives log beside the loss
Objective = Callable[[Batch, int], tuple[Tensor, dict[str, float]]]  # batch, epoch from 0 -> loss, numbers to log


@dataclass
class Counters:
    """Where a training stands; all of it is in the checkpoint."""

    epoch: int = 0
    batch: int = 0  # batches of this epoch that are done
    step: int = 0
    drops: int = 0  # plateaus met
    stale: int = 0  # epochs since the best
    best: float = -math.inf
    best_epoch: int = -1
    seconds: float = 0.0
    sums: dict[str, float] = field(default_factory=dict)  # of this epoch's logged numbers
    history: list[dict[str, float]] = field(default_factory=list)


class Training:
    """One stage of one run.

    Args:
        model: on its device.
        objective: batch and epoch -> loss, a mean over words, and numbers to log; `words` among them is what the loss
            weighs.
        batches: the training images.
        validate: returns the validation CIDEr-D of the model as it is; of several processes, each returns its part of
            the sum.
        stage: the recipe's numbers.
        d_model: for the Noam schedule.
        device: where batches go.
        state: folder of the checkpoint and of the best weights so far.
        identity: hash of everything the result depends on; a state of anything else is not continued.
        name: of the run, for messages.
        group: the processes that train together.
    """

    def __init__(
        self,
        *,
        model: Captioner,
        objective: Objective,
        batches: CaptionBatches,
        validate: Callable[[], float],
        stage: Stage,
        d_model: int,
        device: torch.device,
        state: Path,
        identity: str,
        name: str,
        group: Group | None = None,
    ) -> None:
        self.model, self.objective, self.batches, self.validate = model, objective, batches, validate
        self.name, self.group = name, group or Group(device=device)
        self.stage, self.d_model, self.device, self.state, self.identity = stage, d_model, device, state, identity
        self.optimizer = build_optimizer(model.parameters(), stage)
        self.at = Counters()
        self._asked_to_stop = False

    @property
    def best_weights(self) -> Path:
        """The weights of the best epoch so far."""
        return self.state / "best.safetensors"

    def run(self) -> Counters:
        """Train to the end, or from where a killed run of the same training stood, and return the counters.

        Raises:
            TrainingError: the loss is no number; the ids of the batch are in the message.
            SystemExit: SIGTERM came; the state is saved first.
        """
        self._resume()
        with self._saving_on_sigterm():
            while self.at.epoch < self.stage.epochs and not self._out_of_patience():
                self._epoch()
        return self.at

    def _out_of_patience(self) -> bool:
        return self.stage.patience is not None and self.at.stale >= self.stage.patience

    def _resume(self) -> None:
        saved = load_state(self.state, identity=self.identity, rank=self.group.rank)
        if saved is None:
            return
        self.model.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.at = Counters(**saved["counters"])
        say(f"{self.name}: continuing at epoch {self.at.epoch + 1}, batch {self.at.batch + 1}")

    def _save(self) -> None:
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "counters": asdict(self.at),
        }
        random_states = self.group.random_states()
        if self.group.first:
            save_state(self.state, state, identity=self.identity, random_states=random_states)
        self.group.wait()

    def _epoch(self) -> None:
        at = self.at
        todo = [self.group.share(images) for images in self.batches.order(at.epoch)[at.batch :]]
        name = f"{self.name}, epoch {at.epoch + 1}/{self.stage.epochs}"
        since, saved = time.monotonic(), time.monotonic()
        for batch in progress(self.batches.read(todo), name=name, unit="batches", total=len(todo)):
            self._step(batch)
            now = time.monotonic()
            due = self.group.first and now - saved > 60 * self.stage.checkpoint_minutes
            stop, save = self.group.total(self._asked_to_stop, due)
            if stop or save:
                at.seconds, since, saved = at.seconds + now - since, now, now
                self._save()
                if stop:
                    raise SystemExit(143)
        self._close_epoch(since)

    def _step(self, batch: Batch) -> None:
        """One optimiser step."""
        at = self.at
        rate = learning_rate(
            self.stage.schedule,
            self.stage.learning_rate,
            step=at.step + 1,
            epoch=at.epoch,
            drops=at.drops,
            d_model=self.d_model,
        )
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        loss, numbers = self._loss(batch, rate)
        value = loss.item()
        if not math.isfinite(value):
            raise self._stopped(
                batch, rate, f"the loss of step {at.step + 1} is {value}; its images are {batch.image_ids}"
            )
        words = numbers.pop("words", 1.0)
        (all_words,) = self.group.total(words)
        self.optimizer.zero_grad(set_to_none=True)
        if batch.image_ids:  # the mean over the words of all processes; one process alone multiplies by 1
            (loss * (words / all_words)).backward()
        self.group.add_gradients(self.model.parameters())
        clip_gradients(self.model.parameters(), self.stage)
        self.optimizer.step()
        at.step += 1
        at.batch += 1
        for key, number in self._common({"loss": value, **numbers}, words / all_words).items():
            at.sums[key] = at.sums.get(key, 0.0) + number

    def _loss(self, batch: Batch, rate: float) -> tuple[Tensor, dict[str, float]]:
        """Return the batch's loss and its numbers; a share without images has neither."""
        if not batch.image_ids:
            return torch.zeros(()), {"words": 0.0}
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.stage.precision == "bf16"):
            try:
                return self.objective(batch.to(self.device), self.at.epoch)
            except NotANumber as error:
                images = [batch.image_ids[index] for index in error.images]
                raise self._stopped(batch, rate, f"{error}; its images are {images}") from error

    def _common(self, numbers: dict[str, float], share: float) -> dict[str, float]:
        """Average logged numbers over processes, each by its share of the words."""
        if self.group.size == 1:
            return numbers
        keys = ("loss", *NUMBERS)
        means = self.group.total(*(share * numbers.get(key, 0.0) for key in keys))
        return {key: mean for key, mean in zip(keys, means, strict=True) if mean or key == "loss"}

    def _stopped(self, batch: Batch, rate: float, reason: str) -> TrainingError:
        """Write down the step and the images at which numbers were lost, and return the error that says so."""
        path = self.state / "failed_step.json"
        at = {"epoch": self.at.epoch + 1, "batch": self.at.batch + 1, "step": self.at.step + 1}
        write_json(path, {**at, "image_ids": batch.image_ids, "learning_rate": rate, "reason": reason})
        return TrainingError(
            f"{reason}; lower the learning rate (now {rate:.3g}) or clip the gradient; step and images are in {path}"
        )

    def _close_epoch(self, since: float) -> None:
        """Validate, keep the weights if they are the best, write a line of history, save."""
        at = self.at
        (score,) = self.group.total(self.validate())
        means = {key: total / at.batch for key, total in at.sums.items()}
        rate = self.optimizer.param_groups[0]["lr"]
        at.seconds += time.monotonic() - since
        at.history.append(
            {
                "epoch": at.epoch + 1,
                "step": at.step,
                **means,
                "learning_rate": rate,
                "val_cider_d": score,
                "seconds": at.seconds,
            }
        )
        numbers = ", ".join(f"{key} {value:.4f}" for key, value in means.items())
        done, epochs = at.epoch + 1, self.stage.epochs
        left = f"; {time_left(done, epochs, at.seconds)}" if done < epochs else ""
        say(f"{self.name}, epoch {done}/{epochs}: {numbers}, validation CIDEr-D {score:.4f}{left}")
        if score > at.best:
            at.best, at.best_epoch, at.stale = score, at.epoch + 1, 0
            if self.group.first:
                with atomic_path(self.best_weights) as temporary:
                    save_file(plain_weights(self.model), temporary, metadata={"identity": self.identity})
        else:
            at.stale += 1
            if self.stage.schedule.kind == "plateau" and at.stale % self.stage.schedule.every == 0:
                at.drops += 1
        at.epoch, at.batch, at.sums = at.epoch + 1, 0, {}
        self._save()

    @contextmanager
    def _saving_on_sigterm(self) -> Iterator[None]:
        """Let a polite stop save the state after the current batch."""

        def remember(*_: Any) -> None:
            self._asked_to_stop = True

        before = signal.signal(signal.SIGTERM, remember)
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, before)


def plain_weights(model: Captioner) -> dict[str, Tensor]:
    """The model's tensors as safetensors wants them: contiguous, on the CPU."""
    return {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}
