"""The training loop: one plain loop for both stages that continues, bit for bit, where it was killed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor

from recap.core.config import Stage
from recap.core.errors import TrainingError
from recap.core.files.atomic import write_json
from recap.core.log import progress, say, time_left
from recap.core.process.stop import Stop
from recap.decoding.step import NotANumber
from recap.models.base import Captioner
from recap.runs.counters import Counters
from recap.runs.weights import plain_weights, save_weights
from recap.training.batches import Batch, CaptionBatches
from recap.training.checkpoint import load_state, save_state
from recap.training.distributed import Group
from recap.training.optim import build_optimizer, clip_gradients, learning_rate

NUMBERS = ("reward", "reward_sd", "reward_greedy", "reward_beam", "length")  # what objectives log beside the loss
SAVED = "the state is saved, and the same command continues from here"
Objective = Callable[[Batch, int], tuple[Tensor, dict[str, float]]]  # batch, epoch from 0 -> loss, numbers to log


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
        trained: the model comes with trained weights, which are a candidate for the best like those of any epoch.
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
        trained: bool = False,
    ) -> None:
        self.model, self.objective, self.batches, self.validate = model, objective, batches, validate
        self.name, self.group, self.trained = name, group or Group(device=device), trained
        self.stage, self.d_model, self.device, self.state, self.identity = stage, d_model, device, state, identity
        self.optimizer = build_optimizer(model.parameters(), stage)
        self.at = Counters()
        self._stop = Stop(name)

    @property
    def best_weights(self) -> Path:
        """The weights of the best epoch so far."""
        return self.state / "best.safetensors"

    def run(self) -> Counters:
        """Train to the end, or from where a killed run of the same training stood, and return the counters.

        Raises:
            TrainingError: the loss is no number; the ids of the batch are in the message.
            SystemExit: SIGTERM or SIGINT came; the state is saved first.
        """
        self._resume()
        with self._stop, self._stop.held():
            if self.trained and self.at.best_epoch < 0:
                self._score_start()
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

    def _save(self, random_states: Tensor | None = None) -> None:
        """Save the full state; with the random states of all processes at hand, without a word to the others."""
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "counters": asdict(self.at),
        }
        common = random_states is None
        if random_states is None:
            random_states = self.group.random_states()
        if self.group.first:
            save_state(self.state, state, identity=self.identity, random_states=random_states)
        if common:
            self.group.wait()

    def _epoch(self) -> None:
        at = self.at
        todo = [self.group.share(images) for images in self.batches.order(at.epoch)[at.batch :]]
        name = f"{self.name}, epoch {at.epoch + 1}/{self.stage.epochs}"
        since, saved = time.monotonic(), time.monotonic()
        with closing(self.batches.read(todo)) as reading:
            for batch in progress(reading, name=name, unit="batches", total=len(todo)):
                self._step(batch)
                now = time.monotonic()
                due = self.group.first and now - saved > 60 * self.stage.checkpoint_minutes
                stop, save = self.group.total(self._stop.asked is not None, due)
                if stop or save:
                    at.seconds, since, saved = at.seconds + now - since, now, now
                    self._save()
                    if stop:
                        raise self._stop.leave(SAVED)
        self._close_epoch(since)

    def _step(self, batch: Batch) -> None:
        """One optimiser step."""
        at = self.at
        rate = learning_rate(
            self.stage.schedule,
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
        score = self._score(since)
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
            self._keep_best(score, at.epoch + 1)
        else:
            at.stale += 1
            schedule = self.stage.schedule
            if schedule.kind == "plateau" and at.stale % (schedule.patience + 1) == 0:
                at.drops += 1
        at.epoch, at.batch, at.sums = at.epoch + 1, 0, {}
        self._save()

    def _score_start(self) -> None:
        """Score the weights that the stage begins with and keep them until an epoch beats them (history: epoch 0)."""
        since = time.monotonic()
        score = self._score(since)
        self.at.seconds += time.monotonic() - since
        self.at.history.append({"epoch": 0, "step": 0, "val_cider_d": score, "seconds": self.at.seconds})
        say(f"{self.name}, before the first step: validation CIDEr-D {score:.4f}")
        self._keep_best(score, 0)
        self._save()

    def _score(self, since: float) -> float:
        """Validate. A signal ends this at once: nothing changes or is drawn here, so the state is as it was before."""
        random_states = self.group.random_states()
        try:
            with self._stop.let_go():
                (score,) = self.group.total(self.validate())
        except BaseException:
            if self._stop.asked is None:
                raise
            self.at.seconds += time.monotonic() - since
            self._save(random_states)
            raise self._stop.leave(SAVED) from None
        return score

    def _keep_best(self, score: float, epoch: int) -> None:
        self.at.best, self.at.best_epoch, self.at.stale = score, epoch, 0
        if self.group.first:
            save_weights(self.best_weights, plain_weights(self.model))
