"""Whether a machine computes what it should: the same as a CPU in float64, and to the bit what a killed training would.

`python -m recap.measure.checks FOLDER STAGE DEVICE` is one training.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from recap.core.device import mixed, prepare_gpu
from recap.core.errors import TrainingError
from recap.core.hashing import sha256_file
from recap.measure.steps import Trial
from recap.models.compiled import compile_passes
from recap.models.images import Images, Stream
from recap.plan.amounts import StepInputs, StepShape
from recap.runs.inputs import caption_tensor
from recap.settings import CrossEntropy, DecodingSettings, ModelConfig, SelfCritical, Stage
from recap.settings.features import StoredStream
from recap.settings.models import MODELS
from recap.training.batches import Batch, CaptionBatches
from recap.training.loop import STATE, Training

IMAGES, CAPTIONS, TOKENS, VECTORS, IDS, BEAM = 4, 3, 7, 9, 40, 3  # of the models that are compared
# The relative error of loss and gradient that a precision may have in models so small, whose roundings do not average
# out, and the share of captions that must be equal: with random weights half the bits of a product may turn any.
BOUNDS = {"float32": (1e-4, 1.0), "compiled": (1e-4, 1.0), "tf32": (2e-2, 0.0), "bf16": (1e-1, 0.0)}
KIND, TRAINED, EPOCHS = "transformer", 40, 4  # of the training that is killed, with its images


def agreements(device: torch.device, *, compiled: bool) -> Iterator[dict[str, Any]]:
    """Compare every registered kind, at a tiny size and without dropout, with float64 on the CPU.

    A row has relative errors of the loss and of the whole gradient, and the share of equal captions of a beam search.
    """
    precisions = ["float32", *(["tf32"] if device.type == "cuda" else []), "bf16", *(["compiled"] if compiled else [])]
    for kind, config in MODELS.classes().items():
        shape = _tiny_shape(without_dropout(config.example()), CrossEntropy(epochs=1, learning_rate=0.1))
        exact_loss, exact_gradient, exact_captions = _computed(shape, torch.device("cpu"), "float64")
        for precision in precisions:
            loss, gradient, captions = _computed(shape, device, precision)
            errors = abs(loss / exact_loss - 1), float((gradient - exact_gradient).norm() / exact_gradient.norm())
            equal = float((captions == exact_captions).all(-1).double().mean())
            holds = max(errors) <= BOUNDS[precision][0] and equal >= BOUNDS[precision][1]
            names = {"kind": kind, "precision": precision}
            yield {**names, "loss": errors[0], "gradient": errors[1], "captions": equal, "holds": holds}


def without_dropout(settings: ModelConfig) -> ModelConfig:
    """Return the settings with all dropout at 0; its keys end in that word."""
    changes = {key: 0.0 for key in type(settings).model_fields if key.endswith("dropout")}
    return type(settings).model_validate({**settings.model_dump(), **changes})


def _tiny_shape(model: ModelConfig, stage: Stage) -> StepShape:
    streams = {name: StoredStream(VECTORS, width) for name, width in model.example_streams.items()}
    inputs = StepInputs(streams, IDS, captions=CAPTIONS, words=TOKENS + 1, longest=TOKENS + 1)
    return StepShape("xe" if isinstance(stage, CrossEntropy) else "scst", model, stage, inputs, IMAGES)


def _computed(shape: StepShape, device: torch.device, precision: str) -> tuple[float, Tensor, Tensor]:
    """Return the loss, the whole gradient [P] and the words [IMAGES, T] of a beam, of the same model and data."""
    torch.manual_seed(0)
    if device.type == "cuda":
        prepare_gpu(tf32=precision == "tf32")
    trial = Trial(shape, device)
    images, captions = trial.images(IMAGES), trial.captions(IMAGES)
    if precision == "float64":
        trial.model.double()
        images = Images({name: _double(stream) for name, stream in images.streams.items()})
    elif precision == "compiled":
        compile_passes(trial.model)
    batch = Batch.of(list(captions), images, caption_tensor(list(captions.values()))).to(device)
    with mixed("bf16" if precision == "bf16" else "float32", device):
        loss = trial.objective(captions)(batch, 0).loss
    loss.backward()
    gradient = [parameter.grad for parameter in trial.model.parameters() if parameter.grad is not None]
    trial.model.eval()
    with mixed("bf16" if precision == "bf16" else "float32", device):
        words = trial.search(batch.images, DecodingSettings(beam=BEAM))[:, 0].cpu()
    return loss.item(), torch.cat([each.flatten().double().cpu() for each in gradient]), words


def _double(stream: Stream) -> Stream:
    assert stream.boxes is not None and stream.sizes is not None
    return Stream(stream.values.double(), stream.mask, stream.boxes.double(), stream.sizes.double())


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
    return [sys.executable, "-P", "-m", "recap.measure.checks", str(folder), stage, device.type]


def _run(stage: str, device: torch.device, folder: Path) -> str:
    """Return the hash of the weights that a training ends with."""
    return subprocess.run(_command(stage, device, folder), check=True, capture_output=True, text=True).stdout


class _Features:
    """Features of images that are in memory."""

    def __init__(self, images: Images) -> None:
        self._images = images

    def read(self, image_ids: Sequence[int]) -> Images:
        return self._images.select(torch.tensor(list(image_ids)))


def _train(folder: Path, name: str, device: torch.device) -> str:
    torch.set_num_threads(1)
    if device.type == "cuda":
        prepare_gpu(tf32=True)
    torch.manual_seed(0)
    settings = {"epochs": EPOCHS, "learning_rate": 1e-3, "images_per_batch": 5}
    stage = CrossEntropy(**settings) if name == "xe" else SelfCritical(**settings)
    trial = Trial(_tiny_shape(MODELS.classes()[KIND].example(), stage), device)
    features, captions = _Features(trial.images(TRAINED)), trial.captions(TRAINED)
    folder.mkdir(parents=True, exist_ok=True)
    training = Training(
        step=trial.optimizer_step(captions),
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
