"""A captioning task so small that a training takes a second: image i shows the word 4 + i % 5."""

import torch

from helpers.model_cases import build_model
from recap.models.images import Images, InputSpec
from recap.settings import CrossEntropy, SelfCritical
from recap.training.batches import CaptionBatches
from recap.training.distributed import Group
from recap.training.loop import OptimizerStep, Training
from recap.training.objectives import CrossEntropyObjective, SelfCriticalObjective

CONFIG = {
    "kind": "zodiac",
    "d_model": 16,
    "heads": 2,
    "d_feed_forward": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
}
IMAGES, V = 12, 9
IDENTITY = {"settings": {"epochs": 4}, "inputs": {"feature_hash": "a"}, "source": "0"}


class Store:
    """Features in memory: image i shows the word 4 + i % 5."""

    sizes = {"main": 5}

    def read(self, image_ids):
        kinds = torch.tensor([image % 5 for image in image_ids])
        mask = torch.ones(len(image_ids), 3, dtype=torch.bool)
        return Images.of(torch.eye(5)[kinds][:, None].repeat(1, 3, 1), mask)


CAPTIONS = {image: [[4 + image % 5, 4 + image % 5], [4 + image % 5]] for image in range(IMAGES)}


class Killed(Exception):
    pass


def training(
    state,
    *,
    stage=None,
    scores=None,
    die_at=None,
    trained=False,
    config=CONFIG,
    store=None,
    device="cpu",
    identity=None,
    captions=CAPTIONS,
):
    torch.manual_seed(0)
    store = store or Store()
    model = build_model(config, InputSpec(store.sizes, V)).to(device)
    stage = stage or CrossEntropy(epochs=4, learning_rate=0.01, images_per_batch=5)
    if isinstance(stage, SelfCritical):
        objective = SelfCriticalObjective(model, stage, references=captions, max_length=4)
    else:
        objective = CrossEntropyObjective(model, stage)
    batches = CaptionBatches(
        features=store, captions=captions, images_per_batch=stage.images_per_batch, seed=3
    )
    calls = iter(scores or [])
    loop = Training(
        step=OptimizerStep(
            model=model,
            objective=objective,
            stage=stage,
            d_model=16,
            group=Group(device=torch.device(device)),
        ),
        state=state,
        batches=batches,
        validate=lambda: next(calls, 0.0) if scores else -loop.progress.step,
        identity=identity or IDENTITY,
        name="tiny",
        checkpoint_minutes=1e-9 if die_at is not None else 60,
        trained=trained,
    )
    if die_at is not None:
        inner = loop.step.objective

        def objective(batch, epoch):
            if loop.progress.step == die_at:
                raise Killed
            return inner(batch, epoch)

        loop.step.objective = objective
    return loop


USUAL = {"epochs": 3, "learning_rate": 0.01, "images_per_batch": 5}
STAGES = [
    CrossEntropy(**USUAL),
    SelfCritical(**USUAL, weight_average=0.6),
    CrossEntropy(**USUAL, optimizer="radam", scheduled_sampling={"interval": 1, "increment": 0.3}),
]
