"""The training loop: one plain loop for both stages that continues, bit for bit, where it was killed."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from recap.core.errors import TrainingError
from recap.core.log import log
from recap.core.process.signals import GracefulStop
from recap.core.progress import progress as progress_bar
from recap.core.progress import time_left
from recap.models.base import Captioner
from recap.runs.counters import Counters
from recap.runs.weights import plain_weights, save_weights
from recap.settings import Stage
from recap.training.average import WeightAverage
from recap.training.batches import CaptionBatches
from recap.training.checkpoint import (
    BEST,
    STATE,
    Identity,
    load_state,
    mismatch,
    restore_random_states,
    save_state,
    set_aside,
)
from recap.training.distributed import Group
from recap.training.optim import drops_rate
from recap.training.step import Objective, OptimizerStep

SAVED = "the state is saved, and the same command continues from here"


class Training:
    """One stage of one run.

    Args:
        model: on its device.
        objective: batch and epoch -> loss, a mean over tokens, and numbers to log.
        batches: the training images.
        validate: returns the validation CIDEr-D of the model as it is; of several processes, each returns its part of
            the sum.
        stage: the recipe's numbers.
        d_model: for the Noam schedule.
        device: where batches go.
        state: folder of the checkpoint and of the best weights so far.
        identity: everything the result depends on; a state of anything else is set aside.
        name: of the run, for messages.
        checkpoint_minutes: the full state is saved at least this often.
        keep_state: refuse to start over if the folder holds the state of another training.
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
        identity: Identity,
        name: str,
        checkpoint_minutes: float = 5.0,
        keep_state: bool = False,
        group: Group | None = None,
        trained: bool = False,
    ) -> None:
        self.model, self.batches, self.validate = model, batches, validate
        self.name, self.group, self.trained = name, group or Group(device=device), trained
        self.stage, self.device, self.state, self.identity = stage, device, state, identity
        self.checkpoint_minutes, self.keep_state = checkpoint_minutes, keep_state
        self.step = OptimizerStep(
            model=model,
            objective=objective,
            stage=stage,
            d_model=d_model,
            device=device,
            group=self.group,
            state=state,
        )
        self.average = WeightAverage(model.parameters(), stage.weight_average) if stage.weight_average else None
        self.progress = Counters()
        self._stop = GracefulStop(name)

    @property
    def best_weights(self) -> Path:
        """The weights of the best epoch so far."""
        return self.state / BEST

    def run(self) -> Counters:
        """Train to the end, continuing a killed run of the same training if there is one, and return the counters.

        Raises:
            TrainingError: the loss is NaN or infinite; the ids of the batch are in the message.
            SystemExit: SIGTERM or SIGINT came; the state is saved first.
        """
        self._resume()
        with self._stop, self._stop.deferred():
            if self.trained and self.progress.best_epoch < 0:
                self._score_start()
            while self.progress.epoch < self.stage.epochs and not self._out_of_patience():
                self._epoch()
        return self.progress

    def _out_of_patience(self) -> bool:
        return self.stage.patience is not None and self.progress.epochs_since_best >= self.stage.patience

    def _resume(self) -> None:
        saved = load_state(self.state)
        if saved is None:
            return
        reason = mismatch(saved, self.identity)
        if reason:
            self._start_over(reason)
            return
        restore_random_states(saved, self.group.rank)
        self.model.load_state_dict(saved["model"])
        self.step.optimizer.load_state_dict(saved["optimizer"])
        if self.average is not None:
            self.average.load(saved["average"])
        self.progress = Counters(**saved["counters"])
        log.info(f"{self.name}: continuing at epoch {self.progress.epoch + 1}, batch {self.progress.batch + 1}")

    def _start_over(self, reason: str) -> None:
        """Set the state of another training aside, or refuse to."""
        if self.keep_state:
            raise TrainingError(
                f"{self.state / STATE}: the state of another training ({reason}), and keep_state refuses to "
                "start over; undo what differs, or move the folder away"
            )
        self.group.barrier()  # until all processes have read it
        if self.group.is_main:
            set_aside(self.state, reason)

    def _save(self, random_states: Tensor | None = None) -> None:
        """Save the full state; with the random states of all processes at hand, without a word to the others."""
        state: dict[str, Any] = {
            "model": self.model.state_dict(),
            "optimizer": self.step.optimizer.state_dict(),
            "counters": asdict(self.progress),
        }
        if self.average is not None:
            state["average"] = self.average.averages
        common = random_states is None
        if random_states is None:
            random_states = self.group.random_states()
        if self.group.is_main:
            save_state(self.state, state, identity=self.identity, random_states=random_states)
        if common:
            self.group.barrier()

    def _epoch(self) -> None:
        progress = self.progress
        todo = [self.group.shard(images) for images in self.batches.order(progress.epoch)[progress.batch :]]
        name = f"{self.name}, epoch {progress.epoch + 1}/{self.stage.epochs}"
        since, saved = time.monotonic(), time.monotonic()
        with closing(self.batches.read(todo)) as reading:
            for batch in progress_bar(reading, name=name, unit="batches", total=len(todo)):
                self._count(self.step(batch, progress, steps=self.stage.epochs * len(self.batches)))
                now = time.monotonic()
                due = self.group.is_main and now - saved > 60 * self.checkpoint_minutes
                stop, save = self.group.all_reduce_sum(self._stop.received is not None, due)
                if stop or save:
                    progress.seconds, since, saved = progress.seconds + now - since, now, now
                    self._save()
                    if stop:
                        raise self._stop.exit(SAVED)
        self._close_epoch(since)

    def _count(self, numbers: dict[str, float]) -> None:
        """Count a step that is done, with what it logged."""
        progress = self.progress
        progress.step += 1
        progress.batch += 1
        if self.average is not None:
            self.average.update(progress.step)
        for key, number in numbers.items():
            progress.sums[key] = progress.sums.get(key, 0.0) + number

    def _close_epoch(self, since: float) -> None:
        """Validate if it is time, keep the weights if they are the best, write a line of history, save."""
        progress = self.progress
        score = self._score(since) if self._is_validated(progress.epoch) else None
        means = {key: total / progress.batch for key, total in progress.sums.items()}
        progress.seconds += time.monotonic() - since
        progress.history.append(
            {
                "epoch": progress.epoch + 1,
                "step": progress.step,
                **means,
                "learning_rate": self.step.rate,
                "val_cider_d": score,
                "seconds": progress.seconds,
            }
        )
        numbers = ", ".join(f"{key} {value:.4f}" for key, value in means.items())
        done, epochs = progress.epoch + 1, self.stage.epochs
        left = f"; {time_left(done, epochs, progress.seconds)}" if done < epochs else ""
        validated = "" if score is None else f", validation CIDEr-D {score:.4f}"
        log.info(f"{self.name}, epoch {done}/{epochs}: {numbers}{validated}{left}")
        if score is not None:
            self._judge(score)
        progress.epoch, progress.batch, progress.sums = progress.epoch + 1, 0, {}
        self._save()

    def _is_validated(self, epoch: int) -> bool:
        """Return whether an epoch, counted from 0, ends with a validation: every few do, and the last."""
        return (epoch + 1) % self.stage.validate_every == 0 or epoch + 1 == self.stage.epochs

    def _judge(self, score: float) -> None:
        """Keep the weights of this epoch if they are the best; else the learning rate may fall."""
        progress = self.progress
        if score > progress.best:
            self._keep_best(score, progress.epoch + 1)
            return
        progress.epochs_since_best += 1
        if drops_rate(self.stage.schedule, epoch=progress.epoch, epochs_since_best=progress.epochs_since_best):
            progress.lr_drops += 1

    def _score_start(self) -> None:
        """Score the weights that the stage begins with and keep them until an epoch beats them (history: epoch 0)."""
        since = time.monotonic()
        score = self._score(since)
        self.progress.seconds += time.monotonic() - since
        self.progress.history.append({"epoch": 0, "step": 0, "val_cider_d": score, "seconds": self.progress.seconds})
        log.info(f"{self.name}, before the first step: validation CIDEr-D {score:.4f}")
        self._keep_best(score, 0)
        self._save()

    def _score(self, since: float) -> float:
        """Validate. A signal ends this at once: nothing changes or is drawn here, so the state is as it was before."""
        random_states = self.group.random_states()
        try:
            with self._stop.interruptible(), self._kept_weights():
                (score,) = self.group.all_reduce_sum(self.validate())
        except BaseException:
            if self._stop.received is None:
                raise
            self.progress.seconds += time.monotonic() - since
            self._save(random_states)
            raise self._stop.exit(SAVED) from None
        return score

    def _keep_best(self, score: float, epoch: int) -> None:
        self.progress.best, self.progress.best_epoch, self.progress.epochs_since_best = score, epoch, 0
        if self.group.is_main:
            with self._kept_weights():
                save_weights(self.best_weights, plain_weights(self.model))

    def _kept_weights(self) -> AbstractContextManager[None]:
        """Give the model the weights that are validated and kept: its own, or their average."""
        return nullcontext() if self.average is None else self.average.in_place()
