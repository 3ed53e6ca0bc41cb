"""Trains a tiny model: alone, or started by torchrun as one of several processes.

Arguments: folder for the state; epochs (2); kind of model, whose example without dropout is trained.
"""

import sys
from pathlib import Path

import torch

from helpers.model_cases import RandomStore, still
from helpers.training import CAPTIONS, Store, V
from recap.models.images import InputSpec
from recap.models.registry import build_model, model_config
from recap.settings import CrossEntropy
from recap.settings.models import model_configs
from recap.training.batches import CaptionBatches
from recap.training.distributed import init_group
from recap.training.loop import Training
from recap.training.objectives.cross_entropy import CrossEntropyObjective
from recap.training.objectives.logged import Logged
from recap.training.step import OptimizerStep
from recap.training.validation import validator

STILL = {"dropout": 0.0, "feature_dropout": 0.0}
VALIDATION = {image: rows for image, rows in CAPTIONS.items() if image < 7}  # shares of four and three images
CONFIG = {"kind": "transformer", "d_model": 16, "heads": 2, "d_feed_forward": 16, **STILL}
CONFIG |= {"encoder_layers": 1, "decoder_layers": 1}


def with_a_number(objective):
    """Log one more mean over tokens, under a name that the loop does not know: the mean id of the targets."""

    def logged(batch, epoch):
        found, targets = objective(batch, epoch), batch.tokens[..., 1:]
        return Logged(found.loss, found.num_tokens, {"target_id": targets[targets != 0].double().mean().item()})

    return logged


def train(folder: Path, epochs: int = 2, kind: str | None = None) -> Training:
    """Eleven images in batches of five, so that the last batch has one image and one process has none."""
    torch.manual_seed(0)
    group = init_group(torch.device("cpu"))
    config = still(model_configs()[kind].example()) if kind else model_config(CONFIG)
    store = RandomStore(config) if kind else Store()
    model = build_model(config, InputSpec(store.sizes, V))
    # A large epsilon, because Adam would blow up the rounding of gradients that are 0 but for the order of sums.
    stage = CrossEntropy(epochs=epochs, learning_rate=0.01, images_per_batch=5, epsilon=1e-2, clip_value=None)
    captions = {image: rows for image, rows in CAPTIONS.items() if image < 11}
    loop = Training(
        step=OptimizerStep(
            model=model,
            objective=with_a_number(CrossEntropyObjective(model, stage)),
            stage=stage,
            d_model=16,
            group=group,
            state=folder,
        ),
        batches=CaptionBatches(features=store, captions=captions, images_per_batch=5, seed=3),
        validate=validator(model, stage, store, VALIDATION, 4, group, "worker"),
        identity={"settings": {}},
        name="tiny",
        checkpoint_minutes=1e-9,
    )
    loop.run()
    torch.save(model.state_dict(), folder / f"rank-{group.rank}-of-{group.size}.pt")
    group.destroy()
    return loop


if __name__ == "__main__":
    torch.set_num_threads(1)
    train(Path(sys.argv[1]), *(int(epochs) for epochs in sys.argv[2:3]), *sys.argv[3:])
