"""The training loop: one plain loop for both stages that resumes bit for bit after a kill."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import Tensor

from recap.core.errors import TrainingError
from recap.core.log import log, time_left
from recap.core.log import progress as progress_bar
from recap.core.process import GracefulStop
from recap.decoding.step import NonFiniteLogits
from recap.runs.folder import Counters, plain_weights, save_weights
from recap.training.average import WeightAverage
from recap.training.batches import CaptionBatches
from recap.training.checkpoint import BEST, Identity, continued, save_state
from recap.training.optim import plateaus
from recap.training.step import OptimizerStep

SAVED = "the state is saved, and the same command continues from here"


class Training:
    """One stage of one run.

    `validate` returns this process's part of the validation CIDEr-D. With `trained` the weights that the stage begins
    with are a candidate for the best, like those of any epoch.
    """

    def __init__(
        self,
        *,
        step: OptimizerStep,
        batches: CaptionBatches,
        validate: Callable[[], float],
        identity: Identity,
        name: str,
        checkpoint_minutes: float = 5.0,
        keep_state: bool = False,
        trained: bool = False,
    ) -> None:
        self.step, self.batches, self.validate, self.identity = step, batches, validate, identity
        self.model, self.stage, self.group, self.state = step.model, step.stage, step.group, step.state
        self.name, self.trained = name, trained
        self.checkpoint_minutes, self.keep_state = checkpoint_minutes, keep_state
        decay = self.stage.weight_average
        self.average = WeightAverage(self.model.parameters(), decay) if decay else None
        self.progress = Counters()
        self._stop = GracefulStop(name)

    @property
    def best_weights(self) -> Path:
        """The weights of the best epoch so far."""
        return self.state / BEST

    def run(self) -> Counters:
        """Train to the end, continuing a killed run of the same training if there is one, and return the counters."""
        self._resume()
        with self._stop:
            if self.trained and self.progress.best_epoch < 0:
                self._score_start()
            patience = math.inf if self.stage.patience is None else self.stage.patience
            while self.progress.epoch < self.stage.epochs and self.progress.epochs_since_best < patience:
                self._epoch()
            if len(self._scores) > 1 and len({score for _, score in self._scores}) == 1:
                self._keep_last()
        return self.progress

    def _resume(self) -> None:
        saved = continued(self.state, self.identity, keep=self.keep_state, group=self.group)
        if saved is None:
            return
        self.model.load_state_dict(saved["model"])
        self.step.optimizer.load_state_dict(saved["optimizer"])
        if self.average is not None:
            self.average.load(saved["average"])
        self.progress = Counters(**saved["counters"])
        log.info(f"{self.name}: continuing at epoch {self.progress.epoch + 1}, batch {self.progress.batch + 1}")

    def _save(self, random_states: dict[str, Tensor] | None = None) -> None:
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
        done, epochs = progress.epoch + 1, self.stage.epochs
        score = self._score(since) if done % self.stage.validate_every == 0 or done == epochs else None
        means = {key: total / progress.batch for key, total in progress.sums.items()}
        progress.seconds += time.monotonic() - since
        progress.history.append(
            {
                "epoch": done,
                "step": progress.step,
                **means,
                "learning_rate": self.step.rate,
                "val_cider_d": score,
                "seconds": progress.seconds,
            }
        )
        numbers = ", ".join(f"{key} {value:.4f}" for key, value in means.items())
        left = f"; {time_left(done, epochs, progress.seconds)}" if done < epochs else ""
        validated = "" if score is None else f", validation CIDEr-D {score:.4f}"
        log.info(f"{self.name}, epoch {done}/{epochs}: {numbers}{validated}{left}")
        if score is not None:
            self._judge(score)
        progress.epoch, progress.batch, progress.sums = progress.epoch + 1, 0, {}
        self._save()

    def _judge(self, score: float) -> None:
        """Keep the weights of this epoch if they are the best; the learning rate may fall."""
        progress = self.progress
        progress.lr_drops = plateaus(self.stage.schedule, self._scores)
        progress.epochs_since_best += 1
        if score > progress.best:
            self._keep_best(score, progress.epoch + 1)
            progress.epochs_since_best = 0

    @property
    def _scores(self) -> list[tuple[int, float]]:
        """Epoch and score of each validation."""
        scores = ((line["epoch"], line["val_cider_d"]) for line in self.progress.history)
        return [(int(epoch), score) for epoch, score in scores if epoch is not None and score is not None]

    def _keep_last(self) -> None:
        """Keep the weights of the last epoch, where no validation could choose: all gave the same score."""
        epoch, score = self._scores[-1]
        log.warning(
            f"{self.name}: all {len(self._scores)} validations gave CIDEr-D {score:.4f}, so the last epoch is kept; of "
            "one validation image CIDEr-D is always 0, give more"
        )
        self._keep_best(score, epoch)
        self._save()

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
        except NonFiniteLogits as error:
            raise TrainingError(
                f"{self.name}: {error} after step {self.progress.step}; lower the learning rate (now "
                f"{self.step.rate:.3g}) or clip the gradient"
            ) from error
        except BaseException:
            if self._stop.received is None:
                raise
            self.progress.seconds += time.monotonic() - since
            self._save(random_states)
            raise self._stop.exit(SAVED) from None
        return score

    def _keep_best(self, score: float, epoch: int) -> None:
        self.progress.best, self.progress.best_epoch = score, epoch
        if self.group.is_main:
            with self._kept_weights():
                save_weights(self.best_weights, plain_weights(self.model))

    def _kept_weights(self) -> AbstractContextManager[None]:
        """Give the model the weights that are validated and kept: its own, or their average."""
        return nullcontext() if self.average is None else self.average.in_place()
