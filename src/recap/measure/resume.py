"""Whether a killed training continues to the bit.

`python -m recap.measure.resume FOLDER STAGE DEVICE` is one training.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch

from recap.core.device import prepare_gpu
from recap.core.errors import TrainingError
from recap.core.hashing import sha256_file
from recap.data.vocabulary import SPECIAL
from recap.measure.agreement import random_images
from recap.models.base import build_model
from recap.models.images import Images, InputSpec
from recap.settings import CrossEntropy, SelfCritical
from recap.settings.models import MODELS
from recap.training.batches import CaptionBatches
from recap.training.distributed import Group
from recap.training.loop import STATE, Objective, OptimizerStep, Training
from recap.training.objectives import CrossEntropyObjective, SelfCriticalObjective

KIND, IMAGES, WIDTH, VECTORS, IDS, EPOCHS = "transformer", 40, 16, 9, 30, 4


def resumed(stage: str, device: torch.device, folder: Path) -> dict[str, Any]:
    """Run a tiny training of a stage, xe or scst, twice to its end, and once killed on the way and continued.

    The row says whether the second, and the killed one, have the weights of the first to the bit.
    """
    first, second = (_run(stage, device, folder / name) for name in ("first", "second"))
    killed = folder / "killed"
    process = subprocess.Popen(_command(stage, device, killed), stdout=subprocess.PIPE)
    while process.poll() is None and not (killed / STATE).exists():
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)  # of a process that has ended: nothing
    process.communicate()
    if process.returncode == 0:
        raise TrainingError(f"{killed}: the training ended before it could be killed; run this again")
    return {"stage": stage, "repeats": first == second, "resumes": first == _run(stage, device, killed)}


def _command(stage: str, device: torch.device, folder: Path) -> list[str]:
    return [sys.executable, "-P", "-m", "recap.measure.resume", str(folder), stage, device.type]


def _run(stage: str, device: torch.device, folder: Path) -> str:
    """Return the hash of the weights that a training ends with."""
    return subprocess.run(_command(stage, device, folder), check=True, capture_output=True, text=True).stdout


class _RandomFeatures:
    sizes = {"main": WIDTH}

    def __init__(self) -> None:
        self._every = random_images(self.sizes, IMAGES, {"main": VECTORS})

    def read(self, image_ids: Any) -> Images:
        return self._every.select(torch.tensor(list(image_ids)))


def _train(folder: Path, name: str, device: torch.device) -> str:
    torch.set_num_threads(1)
    if device.type == "cuda":
        prepare_gpu(tf32=True)
    torch.manual_seed(0)
    captions = {image: [[len(SPECIAL) + (image + word) % 9 for word in range(6)]] * 3 for image in range(IMAGES)}
    features = _RandomFeatures()
    model = build_model(MODELS.classes()[KIND].example(), InputSpec(features.sizes, IDS)).to(device)
    settings = {"epochs": EPOCHS, "learning_rate": 1e-3, "images_per_batch": 5}
    stage = CrossEntropy(**settings) if name == "xe" else SelfCritical(**settings)
    objective: Objective
    if isinstance(stage, SelfCritical):
        objective = SelfCriticalObjective(model, stage, references=captions, max_length=8)
    else:
        objective = CrossEntropyObjective(model, stage)
    folder.mkdir(parents=True, exist_ok=True)
    training = Training(
        step=OptimizerStep(model=model, objective=objective, stage=stage, d_model=16, group=Group(device=device)),
        state=folder,
        batches=CaptionBatches(features=features, captions=captions, images_per_batch=5, seed=3),
        validate=lambda: float(training.progress.step),
        identity={"stage": name},
        name=f"tiny {KIND}, {name}",
    )
    training.run()
    return sha256_file(training.best_weights)


if __name__ == "__main__":
    print(_train(Path(sys.argv[1]), sys.argv[2], torch.device(sys.argv[3])))
