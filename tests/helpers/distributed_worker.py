"""Trains a tiny model: alone, or started by torchrun as one of several processes. Argument: folder for the state."""

import sys
from pathlib import Path

import torch

from helpers.training import CAPTIONS, Store
from recap.core.config import CrossEntropy
from recap.models.images import InputSpec
from recap.models.registry import build_model
from recap.training.batches import CaptionBatches
from recap.training.distributed import init_group
from recap.training.loop import Training
from recap.training.objectives.cross_entropy import CrossEntropyObjective
from recap.training.validation import validator

STILL = {"dropout": 0.0, "feature_dropout": 0.0}
VALIDATION = {image: rows for image, rows in CAPTIONS.items() if image < 7}  # shares of four and three images
CONFIG = {"kind": "transformer", "d_model": 16, "heads": 2, "d_feed_forward": 16, **STILL}


def train(folder: Path, epochs: int = 2) -> Training:
    """Eleven images in batches of five, so that the last batch has one image and one process has none."""
    torch.manual_seed(0)
    group = init_group(torch.device("cpu"))
    model = build_model({**CONFIG, "encoder_layers": 1, "decoder_layers": 1}, InputSpec.of(5, 9))
    # A large epsilon, because Adam would blow up the rounding of gradients that are 0 but for the order of sums.
    stage = CrossEntropy(
        epochs=epochs, learning_rate=0.01, images_per_batch=5, checkpoint_minutes=1e-9, epsilon=1e-2, clip_value=None
    )
    captions = {image: rows for image, rows in CAPTIONS.items() if image < 11}
    loop = Training(
        model=model,
        objective=CrossEntropyObjective(model, stage),
        batches=CaptionBatches(features=Store(), captions=captions, images_per_batch=5, seed=3),
        validate=validator(model, stage, Store(), VALIDATION, 4, group, "worker"),
        stage=stage,
        d_model=16,
        device=group.device,
        state=folder,
        identity="test",
        name="tiny",
        group=group,
    )
    loop.run()
    torch.save(model.state_dict(), folder / f"rank-{group.rank}-of-{group.size}.pt")
    group.destroy()
    return loop


if __name__ == "__main__":
    torch.set_num_threads(1)
    train(Path(sys.argv[1]), *(int(epochs) for epochs in sys.argv[2:]))
