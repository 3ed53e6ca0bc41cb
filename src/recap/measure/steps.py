"""What `recap measure` writes: counts and times of real steps
of models at their true size, on random inputs.

It needs the base install alone: no data, no network, no parameter file.

Operations are counted by torch's public formulas, also in passes without a gradient:
`FlopCounterMode` itself follows modules through hooks on gradients, which fail where part of a step
has none.
"""

from __future__ import annotations

import platform
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from datetime import date
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from recap.core.device import half_precision
from recap.core.documents import write_json
from recap.core.hashing import commit, derived_seed
from recap.core.log import log
from recap.core.version import VERSION
from recap.data.vocabulary import BANNED, BOS, EOS, PAD, SPECIAL
from recap.decoding.beam import beam_search
from recap.decoding.step import DecodingBatch, with_banned_tokens
from recap.models.base import build_model
from recap.models.compiled import compile_passes, is_compiled
from recap.models.images import Images, InputSpec, Stream
from recap.nn.fast import fixed_weights
from recap.plan.costs import StepCost
from recap.plan.workload import StepInputs, StepShape
from recap.runs.folder import Counters
from recap.runs.inputs import caption_tensor
from recap.settings import CrossEntropy, DecodingSettings, SelfCritical
from recap.settings.features import StoredStream
from recap.settings.models import MODELS
from recap.training.batches import Batch
from recap.training.distributed import Group
from recap.training.loop import Objective, OptimizerStep
from recap.training.objectives import CrossEntropyObjective, SelfCriticalObjective

# Sizes of a step of COCO: a grid of 7 x 7 vectors,
# five captions an image, a vocabulary of words that occur five times.
IMAGES, VECTORS, WIDTH, IDS, CAPTIONS, WORDS, LONGEST, BEAM = 10, 49, 2048, 9488, 5, 12, 17, 5
_FEW_IMAGES = 4  # of the step whose operations and bytes are counted
_SECONDS_ON_CPU = 2.0  # of a timed step, which has as many images of the batch as that allows
_REPEATS = 3


def paper_shapes(*, tiny: bool, precisions: Sequence[str]) -> Iterator[StepShape]:
    """Yield the three works of every kind, by its defaults (its paper's sizes) or its example."""
    for kind, config in MODELS.classes().items():
        settings = config.example() if tiny else config.model_validate({"kind": kind})
        streams = {
            name: StoredStream(VECTORS, width if tiny else WIDTH)
            for name, width in config.example_streams.items()
        }
        inputs = StepInputs(
            streams, ids=50 if tiny else IDS, captions=CAPTIONS, words=WORDS, longest=LONGEST
        )
        images = _FEW_IMAGES if tiny else IMAGES
        for precision in precisions:
            stage = {"epochs": 1, "learning_rate": 1e-6, "precision": precision}
            yield StepShape("xe", settings, CrossEntropy(**stage), inputs, images)
            yield StepShape("scst", settings, SelfCritical(**stage), inputs, images)
        yield StepShape("decode", settings, DecodingSettings(beam=BEAM), inputs, images)


class Trial:
    """A model of the size of a shape, with random images and captions."""

    def __init__(self, shape: StepShape, device: torch.device) -> None:
        assert shape.inputs.ids is not None
        self.shape, self.device, self.ids = shape, device, shape.inputs.ids
        inputs = InputSpec(
            {name: each.width for name, each in shape.inputs.streams.items()}, self.ids
        )
        self.model = build_model(shape.model, inputs).to(device)
        self._streams = {name: shape.inputs.streams[name] for name in self.model.reads(inputs)}

    def images(self, number: int) -> Images:
        """Return images with random vectors, and their boxes, for every stream of the model."""
        size = torch.tensor([640.0, 480.0])  # of a picture, in pixels
        streams = {}
        for name, stream in self._streams.items():
            vectors = max(1, round(stream.vectors))
            values = torch.rand(number, vectors, stream.width)
            mask = torch.ones(number, vectors, dtype=torch.bool)
            boxes = (torch.rand(number, vectors, 2, 2).sort(2).values * size).flatten(2)
            streams[name] = Stream(values, mask, boxes, size.expand(number, 2))
        return Images(streams)

    def captions(self, number: int) -> dict[int, list[list[int]]]:
        """Return random captions for so many images: one longest, the others of mean length."""
        sizes = self.shape.inputs
        lengths = [sizes.longest - 1, *[round(sizes.words) - 1] * (round(sizes.captions) - 1)]
        captions = {}
        for image in range(number):
            ids = [torch.randint(len(SPECIAL), self.ids, (max(1, length),)) for length in lengths]
            captions[image] = [each.tolist() for each in ids]
        return captions

    def optimizer_step(self, captions: Mapping[int, list[list[int]]]) -> OptimizerStep:
        """Return an optimizer step of the shape's stage, with these references."""
        stage, width = self.shape.settings, self.shape.model.noam_width
        if isinstance(stage, SelfCritical):
            longest = self.shape.inputs.longest
            objective: Objective = SelfCriticalObjective(
                self.model, stage, references=captions, max_length=longest
            )
        else:
            assert isinstance(stage, CrossEntropy)
            objective = CrossEntropyObjective(self.model, stage)
        group = Group(device=self.device)
        return OptimizerStep(
            model=self.model, objective=objective, stage=stage, d_model=width, group=group
        )

    def search(self, images: Images, beam: DecodingSettings) -> Tensor:
        """Return the captions that a search ends with for images, [B, K, T]."""
        batch = DecodingBatch(
            len(images), BOS, EOS, PAD, self.device, together=is_compiled(self.model)
        )
        settings = beam.model_copy(update={"max_length": self.shape.inputs.longest})
        with fixed_weights():
            state = self.model.start(self.model.encode(images))
            return beam_search(
                with_banned_tokens(self.model.step, BANNED), state, batch, settings
            ).tokens

    def step(self, number: int) -> Callable[[], Any]:
        """Return one step on so many images as a function:
        an optimizer step of a stage, or the decoding of a batch."""
        images = self.images(number).to(self.device)
        settings = self.shape.settings
        if isinstance(settings, DecodingSettings):
            self.model.eval()
            return partial(self.search, images, settings)
        captions = self.captions(number)
        batch = Batch.of(list(captions), images, caption_tensor(list(captions.values())))
        # of scheduled sampling, which rises with the epochs
        middle = Counters(epoch=settings.epochs // 2)
        return partial(self.optimizer_step(captions), batch, middle, steps=10**6)


def write_steps(
    out: Path, *, device: torch.device, tiny: bool, compiled: bool, shapes: Sequence[StepShape]
) -> int:
    """Measure steps of these shapes, or of every kind at its paper's sizes;
    write `out` after each; return how many.

    With `tiny` models have the sizes of their tests: a look whether all works, in a minute, whose
    times mean nothing.
    """
    precisions = ["float32", "bf16"] if half_precision(device) is torch.bfloat16 else ["float32"]
    steps: list[dict[str, Any]] = []
    report = {
        "tiny": tiny,
        "device": device.type,
        "machine": machine(device),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "recap": f"{VERSION}, commit {commit()}",
        "measured_on": str(date.today()),
        "steps": steps,
    }
    torch.set_float32_matmul_precision("high")  # as in trainings: TF32 on a GPU
    for shape in shapes or list(paper_shapes(tiny=tiny, precisions=precisions)):
        for mode in (False, True) if compiled else (False,):
            step = measure(shape, device=device, compiled=mode)
            steps.append(step)
            write_json(out, report)
            log.info(
                f"{shape.model.kind}, {shape.work}: {step['cost']['seconds']} seconds an image"
            )
    return len(steps)


def measure(shape: StepShape, *, device: torch.device, compiled: bool = False) -> dict[str, Any]:
    """Run a few steps of a shape: one that is counted,
    then the quickest of three; return the row of the file.

    On a CPU one thread works, on a part of the batch, and its own seconds count, not those of other
    programs.
    """
    threads = torch.get_num_threads()
    torch.manual_seed(derived_seed(0, "measure"))
    try:
        if device.type == "cpu":
            torch.set_num_threads(1)
        return _measured(shape, device, compiled)
    finally:
        torch.set_num_threads(threads)


def _measured(shape: StepShape, device: torch.device, compiled: bool) -> dict[str, Any]:
    trial = Trial(shape, device)
    few = min(shape.images, _FEW_IMAGES)
    run = trial.step(few)
    # Bytes of the tensors that the backward pass needs, by storage; parameters do not count.
    saved = {parameter.untyped_storage().data_ptr(): 0 for parameter in trial.model.parameters()}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        saved.setdefault(storage.data_ptr(), storage.nbytes())
        return tensor

    with Operations() as counted, saved_tensors_hooks(pack, lambda tensor: tensor):
        run()
    if compiled:  # nothing is seen within compiled code, so it is counted before
        compile_passes(trial.model)
        run()
    images = shape.images
    if device.type == "cpu":  # a core takes a minute for a step of the largest batches
        images = min(images, max(few, int(few * _SECONDS_ON_CPU / _seconds(run, device))))
    else:
        torch.cuda.reset_peak_memory_stats(device)
    run = trial.step(images)
    seconds = min(_seconds(run, device) for _ in range(_REPEATS))
    cost = StepCost(
        kind=shape.model.kind,
        work=shape.work,
        sizes=shape.sizes,
        parameters=sum(parameter.numel() for parameter in trial.model.parameters()),
        vectors=shape.inputs.vectors,
        tokens=round(shape.tokens, 2),
        images=images,
        gflop=rounded(counted.total / 1e9 / few),
        saved_mb=rounded(sum(saved.values()) / 1e6 / few),
        seconds=rounded(seconds / images),
        device=device.type,
        machine=machine(device),
        torch=torch.__version__.partition("+")[0],
        measured_on=date.today(),
    )
    return {
        "cost": cost.model_dump(mode="json"),
        "compiled": compiled,
        "launches": counted.launches,  # of the plain code, a kernel or more each
        "peak_mb": rounded(torch.cuda.max_memory_allocated(device) / 1e6)
        if device.type == "cuda"
        else None,
        "images_per_second": rounded(1 / cost.seconds),
        "tflops": rounded(cost.gflop / cost.seconds / 1e3),
    }


class Operations(TorchDispatchMode):
    """Counts within a `with` block.

    Attributes:
        total: operations so far: products, convolutions and attention, which are nearly all.
        launches: operators that compute, not those that only look at memory differently or reserve
        it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.total = self.launches = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator and add what it computes."""
        out = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        self.launches += not (func.is_view or "empty" in name or name == "detach")
        formula = _formulas().get(func.overloadpacket)
        if formula is not None:
            self.total += formula(*args, **(kwargs or {}), out_val=out)
        return out


@cache
def _formulas() -> dict[Any, Callable[..., int]]:
    """Return torch's formulas and those of the operators of the CPU that it does not know."""
    formulas = dict(flop_registry)
    # Fused attention on a CPU counts as the GPU's.
    gpu = "_scaled_dot_product_flash_attention"
    for cpu, end in ((f"{gpu}_for_cpu", ""), (f"{gpu}_for_cpu_backward", "_backward")):
        operator = getattr(torch.ops.aten, gpu + end)
        formulas.setdefault(getattr(torch.ops.aten, cpu), flop_registry[operator])
    # a product with a weight in oneDNN's layout
    packed = getattr(torch.ops.mkldnn, "_linear_pointwise", None)
    if packed is not None:
        formulas.setdefault(packed, lambda x, *_, out_val, **__: 2 * x.numel() * out_val.shape[-1])
    return formulas


def machine(device: torch.device) -> str:
    """Return the name of the processor that a device is."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    about = Path("/proc/cpuinfo")
    text = about.read_text(encoding="utf-8", errors="replace") if about.exists() else ""
    name = re.search(r"^model name\s*:(.*)", text, re.MULTILINE)
    return name[1].strip() if name else platform.processor() or platform.machine()


def _seconds(run: Callable[[], Any], device: torch.device) -> float:
    """Return the seconds of a step: of this process on a CPU, on the clock on a GPU."""
    return elapsed(run, device, time.process_time if device.type == "cpu" else time.monotonic)


def elapsed(
    run: Callable[[], Any], device: torch.device, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Return the seconds until a device has done what is run."""
    with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
        before = clock()
        run()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return clock() - before


def rounded(number: float) -> float:
    """Return a number to four digits."""
    return float(f"{number:.4g}")
