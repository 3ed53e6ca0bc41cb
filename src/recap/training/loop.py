"""The training loop: one plain loop for captioners
and language models that resumes bit for bit after a kill."""

from __future__ import annotations

import math
import time
import zipfile
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from recap.core.device import mixed
from recap.core.documents import differences
from recap.core.errors import TrainingError, first_line, listed
from recap.core.files import atomic_path
from recap.core.log import duration, log
from recap.core.log import progress as progress_bar
from recap.core.process import GracefulStop
from recap.decoding.step import NonFiniteLogits
from recap.models.compiled import falling_back_to_eager
from recap.runs.folder import Counters, plain_weights, save_weights
from recap.settings import Stage
from recap.settings.recipes import warn_of_short_training
from recap.training.batches import Batch, CaptionBatches
from recap.training.distributed import Group
from recap.training.objectives import Logged
from recap.training.optim import (
    WeightAverage,
    build_optimizer,
    clip_gradients,
    learning_rate,
    plateaus,
)

STATE, BEST = "last.pt", "best.safetensors"
SAVED = "the state is saved, and the same command continues from here"
Objective = Callable[[Batch, int], Logged]  # batch, epoch from 0 -> loss and numbers to log


class Metric(NamedTuple):
    """What a validation measures: name, column of the history, -1 where lower is better."""

    name: str
    column: str
    sign: int = 1


CIDER_D = Metric("CIDEr-D", "val_cider_d")


@dataclass(kw_only=True, eq=False)
class OptimizerStep:
    """Updates the weights with one batch."""

    model: nn.Module
    objective: Objective
    stage: Stage
    d_model: int
    group: Group

    def __post_init__(self) -> None:
        self.optimizer = build_optimizer(self.model.parameters(), self.stage)
        self._logged: list[str] | None = None  # names that the objective logs, once they are known

    @property
    def rate(self) -> float:
        """The learning rate of the last step."""
        return self.optimizer.param_groups[0]["lr"]

    def __call__(self, batch: Batch, progress: Counters, *, steps: int) -> dict[str, float]:
        """Do the step after `progress` with this process's shard.

        Return means over all processes, the loss first.
        """
        at = {"step": progress.step + 1, "epoch": progress.epoch, "lr_drops": progress.lr_drops}
        rate = learning_rate(self.stage.schedule, **at, d_model=self.d_model, steps=steps)
        for parameters in self.optimizer.param_groups:
            parameters["lr"] = rate
        logged, loss, weight = self._passes(batch, progress)
        self.group.all_reduce_gradients(self.model.parameters())
        norm = clip_gradients(self.model.parameters(), self.stage)
        # One process with cross-entropy waits for a GPU only here: until this, all is queued.
        scalars = {
            name: number for name, number in logged.numbers.items() if isinstance(number, Tensor)
        }
        read = torch.stack([number.detach().double() for number in (loss, norm, *scalars.values())])
        value, size, *others = read.tolist()
        for name, number in (("loss", value), ("gradient's norm", size)):
            if not math.isfinite(number):
                step, images = at["step"], batch.image_ids
                raise self.lost(f"the {name} of step {step} is {number} (images {images})")
        self.optimizer.step()

        numbers: dict[str, Any] = {
            "loss": value,
            **logged.numbers,
            **dict(zip(scalars, others, strict=True)),
        }
        return numbers if self.group.size == 1 else self._means(numbers, weight)

    def _means(self, numbers: dict[str, Any], weight: float) -> dict[str, float]:
        """Return the means of numbers over all processes."""
        # the main process has images in every batch, so it knows all names
        if self._logged is None:
            self._logged = self.group.broadcast_from_main(list(numbers))
        means = self.group.all_reduce_sum(*(weight * numbers.get(key, 0.0) for key in self._logged))
        return dict(zip(self._logged, means, strict=True))

    def _passes(self, batch: Batch, progress: Counters) -> tuple[Logged, Tensor, float]:
        """Do as `_gradients`, and say of a failure what helps."""
        try:
            return falling_back_to_eager(
                self.model,
                lambda: self._gradients(batch, progress.epoch),
                alone=self.group.size == 1,
            )
        except NonFiniteLogits as error:
            lost = [batch.image_ids[index] for index in error.images]
            raise self.lost(f"{error} (images {lost})") from error
        except RuntimeError as error:
            full = isinstance(error, torch.OutOfMemoryError)
            if full or progress.step or self.stage.precision != "bf16":
                raise
            raise TrainingError(
                f"the first step fails in bf16 ({first_line(error)}); set `precision: float32` in "
                "the recipe"
            ) from error

    def _gradients(self, batch: Batch, epoch: int) -> tuple[Logged, Tensor, float]:
        """Leave the batch's gradients; return what is logged, the loss, this shard's weight."""
        # before the graphs of a compiled pass write over gradients
        self.optimizer.zero_grad(set_to_none=True)
        if not batch.image_ids:  # a shard without images weighs nothing
            nothing = torch.zeros((), device=self.group.device)
            self.group.all_reduce_sum(0, 0)  # the sum below, for which the others wait
            return Logged(nothing, 0), nothing, 0.0
        with mixed(self.stage.precision, self.group.device):
            logged = self.objective(batch.to(self.group.device), epoch)
        averaged, num_added = self.group.all_reduce_sum(logged.num_averaged, logged.num_added)
        weight = logged.num_averaged / averaged
        # the mean over the tokens of all processes; one alone multiplies by 1
        loss = logged.loss * weight
        if logged.added is not None:
            loss = loss + logged.added * (logged.num_added / num_added)
        loss.backward()
        return logged, loss / weight, weight

    def lost(self, reason: str) -> TrainingError:
        """Return the error of a model, or of a step, without numbers."""
        remedy = f"lower the learning rate (now {self.rate:.3g}) or clip the gradient"
        return TrainingError(f"{reason}; {remedy}")


@dataclass(kw_only=True, eq=False)
class Training:
    """One stage of one run, or the training of a language model."""

    step: OptimizerStep
    state: Path  # folder of the state and of the best weights
    batches: CaptionBatches
    validate: Callable[[], float]  # returns this process's part of the validation's metric
    # settings, inputs, source: all that a training depends on, as plain values
    identity: dict[str, Any]
    name: str
    metric: Metric = CIDER_D
    checkpoint_minutes: float = 5.0
    # the weights that the stage begins with are a candidate for the best, as those of an epoch
    trained: bool = False

    def __post_init__(self) -> None:
        step, decay = self.step, self.step.stage.weight_average
        self.model, self.stage, self.group = step.model, step.stage, step.group
        self.average = WeightAverage(self.model.parameters(), decay) if decay else None
        self.progress = Counters()
        self._stop = GracefulStop(self.name)
        self._since = 0.0

    @property
    def best_weights(self) -> Path:
        """The weights of the best epoch so far."""
        return self.state / BEST

    def run(self) -> Counters:
        """Train to the end, continuing a killed run
        of the same training if there is one, and return the counters."""
        self._resume()
        self._since = time.monotonic()
        warn_of_short_training(
            self.name, self.stage.schedule, self.stage.epochs * len(self.batches)
        )
        progress = self.progress
        patience = self.stage.patience or math.inf
        with self._stop:
            if self.trained and progress.best_epoch < 0:  # kept until an epoch beats it
                score = self._score()
                seconds = self._seconds()
                progress.history.append(
                    {"epoch": 0, "step": 0, self.metric.column: score, "seconds": seconds}
                )
                log.info(
                    f"{self.name}, before the first step: validation {self.metric.name} {score:.4f}"
                )
                self._keep(score, 0)
                self._save()
            while progress.epoch < self.stage.epochs and progress.epochs_since_best < patience:
                self._epoch()
            epoch, score = self._scores[-1]
            different = {each for _, each in self._scores}
            if not self.trained and len(self._scores) > 1 and len(different) == 1:
                log.warning(
                    f"{self.name}: all validations gave {self.metric.name} {score:.4f} and could "
                    "choose no epoch, so the last one is kept"
                )
                self._keep(score, epoch)
                self._save()
        return progress

    def _epoch(self) -> None:
        """Train the rest of an epoch; validate when due, keep the best, write history, save."""
        progress, epochs = self.progress, self.stage.epochs
        done = progress.epoch + 1
        self._train_batches(f"{self.name}, epoch {done}/{epochs}")
        score = self._score() if done % self.stage.validate_every == 0 or done == epochs else None
        self._note(done, score)
        if score is not None:
            progress.lr_drops = plateaus(self.stage.schedule, self._scores)
            progress.epochs_since_best += 1
            if self.metric.sign * score > progress.best:
                self._keep(score, done)
                progress.epochs_since_best = 0
        progress.epoch, progress.batch, progress.sums = done, 0, {}
        self._save()

    def _train_batches(self, name: str) -> None:
        """Train the batches of this epoch that are left, and save now and then."""
        progress = self.progress
        steps = self.stage.epochs * len(self.batches)
        left = self.batches.order(progress.epoch)[progress.batch :]
        todo = [self.group.shard(images) for images in left]
        saved = time.monotonic()
        with closing(self.batches.read(todo)) as reading:
            for batch in progress_bar(reading, name=name, unit="batches", total=len(todo)):
                numbers = self.step(batch, progress, steps=steps)
                progress.step += 1
                progress.batch += 1
                if self.average is not None:
                    self.average.update(progress.step)
                for key, number in numbers.items():
                    progress.sums[key] = progress.sums.get(key, 0.0) + number
                due = self.group.is_main and time.monotonic() - saved > 60 * self.checkpoint_minutes
                stop, save = self.group.all_reduce_sum(self._stop.received is not None, due)
                if stop or save:
                    self._save()
                    saved = time.monotonic()
                if stop:
                    raise self._stop.exit(SAVED)

    def _note(self, done: int, score: float | None) -> None:
        """Add an epoch to the history, and log it."""
        progress, epochs = self.progress, self.stage.epochs
        means = {key: total / progress.batch for key, total in progress.sums.items()}
        progress.history.append(
            {
                "epoch": done,
                "step": progress.step,
                **means,
                "learning_rate": self.step.rate,
                self.metric.column: score,
                "seconds": self._seconds(),
            }
        )
        text = ", ".join(f"{key} {value:.4f}" for key, value in means.items())
        if score is not None:
            text += f", validation {self.metric.name} {score:.4f}"
        if done < epochs:
            text += f"; about {duration(progress.seconds * (epochs - done) / done)} left"
        log.info(f"{self.name}, epoch {done}/{epochs}: {text}")

    def _score(self) -> float:
        """Validate.

        A signal ends this at once: nothing changes or is drawn here, so the state is as it was
        before.
        """
        random_states = self.group.random_states()
        try:
            with self._stop.interruptible(), self._kept_weights():
                (score,) = self.group.all_reduce_sum(
                    falling_back_to_eager(self.model, self.validate, alone=self.group.size == 1)
                )
        except NonFiniteLogits as error:
            reason = f"{self.name}: {error} after step {self.progress.step}"
            raise self.step.lost(reason) from error
        except BaseException:
            if self._stop.received is None:
                raise
            self._save(random_states)
            raise self._stop.exit(SAVED) from None
        return score

    @property
    def _scores(self) -> list[tuple[int, float]]:
        """Epoch and score of each validation."""
        scores = ((line["epoch"], line[self.metric.column]) for line in self.progress.history)
        return [
            (int(epoch), score)
            for epoch, score in scores
            if epoch is not None and score is not None
        ]

    def _keep(self, score: float, epoch: int) -> None:
        """Keep these weights as the best."""
        self.progress.best = self.metric.sign * score
        self.progress.best_epoch = epoch
        if self.group.is_main:
            with self._kept_weights():
                save_weights(self.best_weights, plain_weights(self.model))

    def _kept_weights(self) -> AbstractContextManager[None]:
        """Give the model the weights that are validated and kept: its own, or their average."""
        return nullcontext() if self.average is None else self.average.in_place()

    def _seconds(self) -> float:
        """Count the seconds up to now and return the sum."""
        now = time.monotonic()
        self.progress.seconds += now - self._since
        self._since = now
        return self.progress.seconds

    def _save(self, random_states: dict[str, Tensor] | None = None) -> None:
        """Save the full state; with all random states at hand, without the other processes."""
        self._seconds()
        states = self.group.random_states() if random_states is None else random_states
        if self.group.is_main:
            state = {
                "identity": self.identity,
                "random": states,
                "model": self.model.state_dict(),
                "optimizer": self.step.optimizer.state_dict(),
                "counters": asdict(self.progress),
                "average": None if self.average is None else self.average.averages,
            }
            with atomic_path(self.state / STATE) as temporary:
                torch.save(state, temporary)
        if random_states is None:
            self.group.barrier()

    def _resume(self) -> None:
        """Continue from the state that this very training left,
        or one that had fewer epochs where these do not matter.

        The state of another training is set aside with its best weights.
        """
        saved = load_state(self.state)
        if saved is None:
            return
        if saved["identity"] != self.identity and not has_more_epochs(
            saved["identity"], self.identity
        ):
            self.group.barrier()  # until all processes have read it
            if self.group.is_main:
                self._set_aside(listed(differences(saved["identity"], self.identity)))
            return
        torch.set_rng_state(saved["random"]["cpu"][self.group.rank].clone())
        if "cuda" in saved["random"] and torch.cuda.is_available():
            torch.cuda.set_rng_state(saved["random"]["cuda"][self.group.rank].clone())
        self.model.load_state_dict(saved["model"])
        self.step.optimizer.load_state_dict(saved["optimizer"])
        if self.average is not None:
            for mine, average in zip(self.average.averages, saved["average"], strict=True):
                mine.copy_(average)
        self.progress = Counters(**saved["counters"])
        log.info(
            f"{self.name}: continuing at epoch {self.progress.epoch + 1}, batch "
            f"{self.progress.batch + 1}"
        )

    def _set_aside(self, reason: str) -> None:
        """Move the state of another training, and its best weights, out of the way."""
        for name in (BEST, STATE):
            if (self.state / name).exists():
                (self.state / name).replace(self.state / f"previous.{name}")
        log.warning(
            f"{self.state / STATE}: the state of another training ({reason}), which starts over; "
            f"the old state is kept as previous.{STATE} until the next one is"
        )


def load_state(folder: Path) -> dict[str, Any] | None:
    """Return the state saved in a folder, or None if there is none; a damaged one is refused."""
    path = folder / STATE
    if not path.exists():
        return None
    try:
        # its members carry a CRC each, at which torch does not look
        with zipfile.ZipFile(path) as file:
            reason = file.testzip()
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        reason = type(error).__name__
    if reason is not None:
        raise TrainingError(f"{path}: is damaged ({reason}); delete it to start over")
    return state


def has_more_epochs(old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Return whether two trainings differ only in more epochs, before which nothing changes.

    A cosine depends on the number of epochs; a last epoch that was validated out of turn may have
    dropped the rate.
    """
    before = old["settings"].get("stage_settings", {})
    after = new["settings"].get("stage_settings", {})
    raised = {**old["settings"], "stage_settings": {**before, "epochs": after.get("epochs")}}
    return (
        {**old, "settings": raised} == new
        and after["epochs"] > before["epochs"]
        and after["schedule"]["kind"] != "cosine"
        and before["epochs"] % before.get("validate_every", 1) == 0
    )
