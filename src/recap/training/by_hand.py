"""A training in this very process, for a debugger and for the first hour with a new model: few steps, then captions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import rmtree

from recap.core.device import select_device
from recap.evaluation.decode import decode_images, ending_ids
from recap.runs.pretrained import pretrained_file
from recap.settings import Evaluation, Execution, RunSpec
from recap.training.batches import Batch, CaptionBatches
from recap.training.distributed import init_group
from recap.training.job import Inputs, build_training, finish, load_inputs, prepare
from recap.training.loop import Training
from recap.training.objectives.logged import Logged
from recap.training.step import Objective

OVERFIT_STEPS = 100
SHOWN = 2  # captions
VALIDATED = 50  # images, where steps are counted


@dataclass(frozen=True)
class Shown:
    """What a training by hand ends with: the loss of each step, and captions of some images with a reference."""

    losses: list[float]
    captions: dict[int, tuple[str, str]]

    def text(self) -> str:
        """Return it in a few lines."""
        loss = f"loss {self.losses[0]:.4f} at step 1, {self.losses[-1]:.4f} at step {len(self.losses)}"
        lines = [f"image {image}: {said!r} (a reference: {other!r})" for image, (said, other) in self.captions.items()]
        return "\n".join([loss, *lines])


class FirstBatches(CaptionBatches):
    """The first batches of a training as one epoch, or its first batch again and again.

    Args:
        batches: of the whole training.
        steps: how many batches.
        one_batch: take the first every time.
    """

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


def train_by_hand(
    *,
    spec: RunSpec,
    execution: Execution,
    evaluation: Evaluation,
    corpus: Path,
    vocabulary: Path,
    subset: Path,
    features: Sequence[Path],
    init: Path | None,
    weights: Path | None = None,
    steps: int | None,
    overfit_one_batch: bool,
    out: Path,
) -> Shown:
    """Train in this process and decode two images; the run folder is `out/run`.

    Args:
        spec, execution: as `train` takes them; the state of an earlier training in `out` is not continued.
        evaluation: how the captions are decoded.
        corpus, vocabulary, subset, features, init, weights: the files that go in, as `train` takes them.
        steps: stop after so many; None: all epochs of the spec, or 100 steps on one batch.
        overfit_one_batch: take the first batch at every step; a model that learns comes near a loss of 0.
        out: folder of the state and of the run.

    Raises:
        RecapError: something is missing, broken or does not fit.
    """
    group = init_group(select_device(execution.device))
    prepare(spec, execution, group)
    weights = None if init else pretrained_file(spec.model_settings.pretrained_weights(), weights)
    inputs = load_inputs(
        corpus=corpus, vocabulary=vocabulary, subset=subset, features=features, init=init, weights=weights
    )
    steps = OVERFIT_STEPS if overfit_one_batch and steps is None else steps
    if steps is not None:
        spec = spec.model_copy(update={"stage_settings": spec.stage_settings.model_copy(update={"epochs": 1})})
        inputs = replace(inputs, validation=dict(list(inputs.validation.items())[:VALIDATED]))
    rmtree(out / "state", ignore_errors=True)
    training = build_training(spec, execution, inputs, out / "state", group)
    if steps is not None:
        training.batches = FirstBatches(training.batches, steps=steps, one_batch=overfit_one_batch)
    losses: list[float] = []
    training.step.objective = _recorded(training.step.objective, losses)
    counters = training.run()
    finish(spec, execution, inputs, training, counters, out / "run")
    images = training.batches.order(0)[0] if overfit_one_batch else list(inputs.validation)
    captions = _captions(training, inputs, evaluation, images[:SHOWN])
    group.destroy()
    return Shown(losses, captions)


def _recorded(objective: Objective, losses: list[float]) -> Callable[[Batch, int], Logged]:
    """Return the objective, which also notes its losses."""

    def recorded(batch: Batch, epoch: int) -> Logged:
        logged = objective(batch, epoch)
        losses.append(logged.loss.item())
        return logged

    return recorded


def _captions(
    training: Training, inputs: Inputs, evaluation: Evaluation, images: Sequence[int]
) -> dict[int, tuple[str, str]]:
    """Return what the trained model says about images, beside a reference of each."""
    references = {**inputs.captions, **inputs.validation}
    words = inputs.vocabulary
    endings = ending_ids(evaluation.rules, words)
    found = decode_images(
        training.model, inputs.features, images, evaluation, endings, device=training.device, name="captions"
    )
    return {image: (words.decode(found[image]), words.decode(references[image][0])) for image in images}
