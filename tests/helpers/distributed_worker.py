"""Trains a tiny model: alone, or started by torchrun
as one of several processes, whose second may be killed.

Arguments: folder for the state; then NAME=VALUE as `train` takes them, or kinds=ONE,TWO for a
training of each.
"""

import itertools
import os
import signal
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch

from helpers.model_cases import RandomStore, build_model, changed, still
from helpers.training import CAPTIONS, Store, V
from recap.models.compiled import compile_passes
from recap.models.images import InputSpec
from recap.settings import CrossEntropy, SelfCritical
from recap.settings.models import MODELS
from recap.training.batches import CaptionBatches
from recap.training.distributed import init_group
from recap.training.loop import OptimizerStep, Training
from recap.training.objectives import CrossEntropyObjective, Logged, SelfCriticalObjective
from recap.training.run import validator

STILL = {"dropout": 0.0, "feature_dropout": 0.0}
# shares of four and three images
VALIDATION = {image: rows for image, rows in CAPTIONS.items() if image < 7}
# unequal numbers of tokens
TRAINED = {image: rows[: 1 + image % 2] for image, rows in CAPTIONS.items() if image < 11}
CONFIG = {"kind": "transformer", "d_model": 16, "heads": 2, "d_feed_forward": 16, **STILL}
CONFIG |= {"encoder_layers": 1, "decoder_layers": 1}
USUAL = {"learning_rate": 0.01, "images_per_batch": 5}
STAGES = {
    # A large epsilon, because Adam would blow up the rounding
    # of gradients that are 0 but for the order of sums.
    "smooth": CrossEntropy(epochs=2, epsilon=1e-2, clip_value=None, **USUAL),
    "xe": CrossEntropy(epochs=4, clip_norm=0.1, label_smoothing=0.1, weight_average=0.9, **USUAL),
    # Beams draw no random numbers, which would be others in each process.
    "scst": SelfCritical(
        epochs=4, sampling="beam", baseline="greedy", cross_entropy=0.3, samples=3, **USUAL
    ),
}


class DoubleStore(Store):
    """The same features in float64."""

    def read(self, image_ids):
        return changed(
            super().read(image_ids), lambda stream: replace(stream, values=stream.values.double())
        )


@contextmanager
def no_float32(active):
    """Within, `float` leaves float64 as it is: objectives take logits in bf16 to float32 by it."""
    plain = torch.Tensor.float
    if active:
        torch.Tensor.float = lambda self: self if self.dtype == torch.float64 else plain(self)
    try:
        yield
    finally:
        torch.Tensor.float = plain


def with_a_number(objective):
    """Log one more mean over tokens, under a name
    that the loop does not know: the mean id of the targets."""

    def logged(batch, epoch):
        result, targets = objective(batch, epoch), batch.tokens[..., 1:]
        return Logged(
            result.loss,
            result.num_averaged,
            {"target_id": targets[targets != 0].double().mean().item()},
        )

    return logged


def objective_of(model, stage):
    if isinstance(stage, SelfCritical):
        return SelfCriticalObjective(model, stage, references=TRAINED, max_length=4)
    return with_a_number(CrossEntropyObjective(model, stage))


def watched(step, group, die_at):
    """Return what will hold the gradients of the first update.

    The last process is killed before one update.
    """
    update, gradients, done = step.optimizer.step, [], itertools.count()

    def watched_update():
        if next(done) == die_at and group.rank == group.size - 1:
            os.kill(os.getpid(), signal.SIGKILL)
        if not gradients:
            gradients.extend(parameter.grad.clone() for parameter in step.model.parameters())
        update()

    step.optimizer.step = watched_update
    return gradients


def does_not_compile(model, here):
    """Give a model compiled passes, which are traced by nobody here.

    The first backward pass fails in one process.
    """
    torch.compiler.set_stance("force_eager")
    compile_passes(model)

    def refuse(gradient):
        hook.remove()
        raise RuntimeError("no such kernel")

    if here:
        hook = model.output.weight.register_hook(refuse)


def train(
    folder: Path,
    group,
    epochs="",
    kind="",
    stage="smooth",
    dtype="float32",
    die_at="-1",
    refuses="",
    minutes=1e-9,
) -> Training:
    """Train on eleven images in batches of five,
    so that the last batch has one image and one process has none."""
    torch.manual_seed(0)
    settings = STAGES[stage].model_copy(update={"epochs": int(epochs)} if epochs else {})
    config = still(MODELS.classes()[kind].example()) if kind else CONFIG
    double = dtype == "float64"
    store = RandomStore(config) if kind else DoubleStore() if double else Store()
    model = build_model(config, InputSpec(store.sizes, V)).to(group.device, getattr(torch, dtype))
    if refuses:
        does_not_compile(model, group.rank == int(refuses))
    loop = Training(
        step=OptimizerStep(
            model=model,
            objective=objective_of(model, settings),
            stage=settings,
            d_model=16,
            group=group,
        ),
        state=folder,
        batches=CaptionBatches(features=store, captions=TRAINED, images_per_batch=5, seed=3),
        validate=validator(model, settings, store, VALIDATION, 4, None, group, "worker"),
        identity={"settings": {}},
        name="tiny",
        checkpoint_minutes=minutes,
    )
    gradients = watched(loop.step, group, int(die_at))
    with no_float32(double):
        loop.run()
    result = {"weights": model.state_dict(), "gradients": gradients}
    torch.save(result, folder / f"rank-{group.rank}-of-{group.size}.pt")
    return loop


if __name__ == "__main__":
    torch.set_num_threads(1)
    folder, arguments = Path(sys.argv[1]), dict(each.split("=", 1) for each in sys.argv[2:])
    group = init_group(torch.device("cpu"))
    for kind in arguments.pop("kinds", "").split(","):
        train(folder / kind, group, kind=kind, **arguments)
    group.destroy()
