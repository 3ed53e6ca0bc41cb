"""Counts and times real steps of a model at its true size, on random inputs: what `recap plan --time` measures."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from datetime import date
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from recap.core.hashing import derived_seed
from recap.data.vocabulary import BANNED, BOS, EOS, PAD, SPECIAL
from recap.decoding.beam import search
from recap.decoding.step import DecodingBatch, with_banned_tokens
from recap.measure.operations import Operations
from recap.models.base import Captioner, streams_with_boxes
from recap.models.images import Images, InputSpec, Stream
from recap.models.registry import build_model
from recap.nn.fast.linear import fixed_weights
from recap.plan.amounts import StepShape
from recap.plan.costs import StepCost
from recap.runs.folder import Counters
from recap.runs.inputs import caption_tensor
from recap.settings import CrossEntropy, DecodingSettings, SelfCritical
from recap.training.batches import Batch
from recap.training.distributed import Group
from recap.training.loop import Objective, OptimizerStep
from recap.training.objectives import CrossEntropyObjective, SelfCriticalObjective

_FEW_IMAGES = 4  # of the step whose operations and bytes are counted
_SECONDS_ON_CPU = 2.0  # of a timed step, which has as many images of the batch as that allows
_REPEATS = 3
_PICTURE = (640.0, 480.0)  # of random boxes, in pixels


def measure(shape: StepShape, *, device: torch.device) -> StepCost:
    """Run a few steps of a shape and return what one image costs: the least of three, after one that is counted.

    On a CPU one thread works, on a part of the batch, and its own seconds count, not those of other programs.
    """
    threads = torch.get_num_threads()
    torch.manual_seed(derived_seed(0, "measure"))
    try:
        if device.type == "cpu":
            torch.set_num_threads(1)
        return _measured(shape, device)
    finally:
        torch.set_num_threads(threads)


def _measured(shape: StepShape, device: torch.device) -> StepCost:
    assert shape.inputs.ids is not None
    inputs = InputSpec({name: each.width for name, each in shape.inputs.streams.items()}, shape.inputs.ids)
    model = build_model(shape.model, inputs).to(device)
    few = min(shape.images, _FEW_IMAGES)
    run = _step(shape, model, inputs, few, device)
    saved = _Saved(model)
    with Operations() as counted, saved_tensors_hooks(saved.pack, lambda tensor: tensor):
        run()
    images = shape.images
    if device.type == "cpu":  # a core takes a minute for a step of the largest batches
        images = min(images, max(few, int(few * _SECONDS_ON_CPU / _seconds(run, device))))
    run = _step(shape, model, inputs, images, device)
    seconds = min(_seconds(run, device) for _ in range(_REPEATS))
    return StepCost(
        kind=shape.model.kind,
        work=shape.work,
        key=shape.key,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        vectors=shape.inputs.vectors,
        tokens=round(shape.tokens, 2),
        images=images,
        gflop=_rounded(counted.total / 1e9 / few),
        saved_mb=_rounded(saved.bytes / 1e6 / few),
        seconds=_rounded(seconds / images),
        device=device.type,
        machine=machine(device),
        torch=torch.__version__.partition("+")[0],
        measured_on=date.today(),
    )


def machine(device: torch.device) -> str:
    """Return the name of the processor that a device is."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    about = Path("/proc/cpuinfo")
    lines = about.read_text(encoding="utf-8", errors="replace").splitlines() if about.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return next(iter(names), platform.processor() or platform.machine())


def _step(
    shape: StepShape, model: Captioner, inputs: InputSpec, images: int, device: torch.device
) -> Callable[[], Any]:
    """Return one step as a function: an optimizer step of a stage, or the decoding of a batch."""
    features = _images(shape, model, inputs, images).to(device)
    if isinstance(shape.settings, DecodingSettings):
        return _decoding(model, features, shape.settings.model_copy(update={"max_length": shape.inputs.longest}))
    captions = {image: _captions(shape) for image in range(images)}
    batch = Batch(list(captions), features, caption_tensor(list(captions.values())))
    step = OptimizerStep(
        model=model,
        objective=_objective(model, shape, captions),
        stage=shape.settings,
        d_model=shape.model.noam_width,
        group=Group(device=device),
    )
    middle = Counters(epoch=shape.settings.epochs // 2)  # of scheduled sampling, which rises with the epochs
    return lambda: step(batch, middle, steps=10**6)


def _objective(model: Captioner, shape: StepShape, captions: Mapping[int, list[list[int]]]) -> Objective:
    settings = shape.settings
    if isinstance(settings, SelfCritical):
        return SelfCriticalObjective(model, settings, references=captions, max_length=shape.inputs.longest)
    assert isinstance(settings, CrossEntropy)
    return CrossEntropyObjective(model, settings)


def _decoding(model: Captioner, images: Images, settings: DecodingSettings) -> Callable[[], Any]:
    step = with_banned_tokens(model.step, BANNED)
    batch = DecodingBatch(len(images), BOS, EOS, PAD, images.device)

    def decode() -> None:
        with fixed_weights():
            search(step, model.start(model.encode(images)), batch, settings)

    model.eval()
    return decode


def _captions(shape: StepShape) -> list[list[int]]:
    """Return captions of random ids: one of the longest, the others of the mean length."""
    assert shape.inputs.ids is not None
    lengths = [shape.inputs.longest - 1, *[round(shape.inputs.words) - 1] * (round(shape.inputs.captions) - 1)]
    return [torch.randint(len(SPECIAL), shape.inputs.ids, (max(1, length),)).tolist() for length in lengths]


def _images(shape: StepShape, model: Captioner, inputs: InputSpec, images: int) -> Images:
    boxed = streams_with_boxes(model, inputs)
    return Images({name: _stream(shape, name, images, name in boxed) for name in model.reads(inputs)})


def _stream(shape: StepShape, name: str, images: int, boxed: bool) -> Stream:
    stream = shape.inputs.streams[name]
    vectors = max(1, round(stream.vectors))
    values, mask = torch.rand(images, vectors, stream.width), torch.ones(images, vectors, dtype=torch.bool)
    if not boxed:
        return Stream(values, mask)
    picture = torch.tensor(_PICTURE)
    corners = torch.rand(images, vectors, 2, 2).sort(2).values * picture
    return Stream(values, mask, corners.flatten(2), picture.expand(images, 2))


class _Saved:
    """Counts the bytes of tensors that the backward pass needs, each storage once, without the parameters."""

    def __init__(self, model: Captioner) -> None:
        self._seen = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
        self.bytes = 0

    def pack(self, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self._seen:
            self._seen.add(storage.data_ptr())
            self.bytes += storage.nbytes()
        return tensor


def _seconds(run: Callable[[], Any], device: torch.device) -> float:
    """Return the seconds of a step: of this process on a CPU, on the clock on a GPU."""
    clock = time.process_time if device.type == "cpu" else time.monotonic
    with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
        before = clock()
        run()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return clock() - before


def _rounded(number: float) -> float:
    return float(f"{number:.4g}")
