"""A captioning task so small that a training takes a second: image i shows the word 4 + i % 5."""

import torch

from recap.core.config import CrossEntropy, SelfCritical
from recap.models.registry import build_model
from recap.training.batches import CaptionBatches
from recap.training.loop import Training
from recap.training.objectives.cross_entropy import CrossEntropyObjective
from recap.training.objectives.self_critical import SelfCriticalObjective

CONFIG = {"kind": "zodiac", "d_model": 16, "heads": 2, "d_feed_forward": 16, "encoder_layers": 1, "decoder_layers": 1}
IMAGES, V = 12, 9


class Store:
    """Features in memory: image i shows the word 4 + i % 5."""

    def read(self, image_ids):
        kinds = torch.tensor([image % 5 for image in image_ids])
        return torch.eye(5)[kinds][:, None].repeat(1, 3, 1), torch.ones(len(image_ids), 3, dtype=torch.bool)


CAPTIONS = {image: [[4 + image % 5, 4 + image % 5], [4 + image % 5]] for image in range(IMAGES)}


class Killed(Exception):
    pass


def training(state, *, stage=None, scores=None, die_at=None, trained=False):
    torch.manual_seed(0)
    model = build_model(CONFIG, feature_size=5, vocabulary_size=V)
    stage = stage or CrossEntropy(epochs=4, learning_rate=0.01, images_per_batch=5, checkpoint_minutes=1e-9)
    if isinstance(stage, SelfCritical):
        objective = SelfCriticalObjective(model, stage, references=CAPTIONS, max_length=4)
    else:
        objective = CrossEntropyObjective(model, stage)
    batches = CaptionBatches(store=Store(), captions=CAPTIONS, images_per_batch=stage.images_per_batch, seed=3)
    calls = iter(scores or [])
    loop = Training(
        model=model,
        objective=objective,
        batches=batches,
        validate=lambda: next(calls, 0.0) if scores else -loop.at.step,
        stage=stage,
        d_model=16,
        device=torch.device("cpu"),
        state=state,
        identity="test",
        name="tiny",
        trained=trained,
    )
    if die_at is not None:
        inner = loop.objective

        def objective(batch, epoch):
            if loop.at.step == die_at:
                raise Killed
            return inner(batch, epoch)

        loop.objective = objective
    return loop


STAGES = [
    CrossEntropy(epochs=3, learning_rate=0.01, images_per_batch=5, checkpoint_minutes=1e-9),
    SelfCritical(epochs=3, learning_rate=0.01, images_per_batch=5, checkpoint_minutes=1e-9),
    CrossEntropy(
        epochs=3,
        learning_rate=0.01,
        images_per_batch=5,
        checkpoint_minutes=1e-9,
        optimizer="radam",
        scheduled_sampling={"interval": 1, "increment": 0.3},
    ),
]
