"""`make gpu`: does a GPU compute what a CPU does,
does a killed training resume to the bit, and how fast is it?

    python -m benchmarks.gpu [--device cpu] [--tiny] [--kinds xlan ...] [--minutes 15] \\
        [--out gpu.json]

Each kind of model takes 20 steps of cross-entropy on random images and captions, without dropout,
from the same weights: in float64 on the CPU, then on the device in each precision, with plain and
with compiled passes. Then it decodes the images by beam search. The sizes are those of the papers,
with few images per step, as the CPU takes the same steps. The file is written after each row.
docs/guides/contribute_a_run.md says what it proves.
"""

from __future__ import annotations

import argparse
import platform
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import torch
from torch import Tensor

from recap.core.device import mixed, prepare_gpu, select_device
from recap.core.documents import write_json
from recap.core.errors import RecapError
from recap.core.hashing import commit, sha256_file
from recap.core.version import VERSION
from recap.features.grid import Backbone
from recap.measure.steps import Trial, elapsed, machine, paper_shapes, rounded
from recap.models.compiled import compile_passes, is_compiled
from recap.models.images import Images, Stream
from recap.plan.workload import StepShape
from recap.runs.folder import Counters
from recap.runs.inputs import caption_tensor
from recap.settings import CrossEntropy, DecodingSettings, ModelConfig, SelfCritical
from recap.settings.features import GridFeatures
from recap.settings.models import MODELS
from recap.training.batches import Batch, CaptionBatches
from recap.training.loop import BEST, STATE, Training

STEPS, IMAGES, BEAM = 20, 4, 3
CPU = torch.device("cpu")
# The most that the loss of a step may differ from that in float64, as a share of the first loss.
# Those of TF32 and bf16 were set by tiny models on a CPU; no GPU was there to measure.
BOUNDS = {"float32": 1e-4, "tf32": 5e-3, "bf16": 2e-2}
# A large epsilon, so that Adam does not enlarge the rounding of gradients near 0; at five times the
# rate some models of the papers' sizes are unstable.
RECIPE = {"epochs": 1, "learning_rate": 0.002, "epsilon": 0.01}
# the kind that is killed, its training images and epochs
KILLED, TRAINED, EPOCHS = "transformer", 40, 4


class Trained(NamedTuple):
    """A model after its steps."""

    losses: list[float]
    captions: Tensor  # [IMAGES, T]
    seconds: float  # of a step, the median of the second half, when all is compiled
    peak_mb: float | None  # of a GPU
    compiled: bool  # a pass that does not compile runs plain


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the file, print a line for each row and what does not hold; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu", description=("Compare a GPU with the CPU.")
    )
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"], help="default: cuda")
    parser.add_argument(
        "--tiny", action="store_true", help=("models of the tests' size; the times mean nothing")
    )
    parser.add_argument(
        "--kinds", nargs="+", default=list(MODELS.classes()), choices=list(MODELS.classes())
    )
    parser.add_argument(
        "--plain",
        action="store_true",
        help=("no compiled passes, each of which takes minutes on a CPU"),
    )
    parser.add_argument("--minutes", type=float, default=15, help="after these no row begins (15)")
    parser.add_argument(
        "--tests", type=Path, help=("output of `pytest -m gpu`, which goes into the file")
    )
    parser.add_argument("--out", type=Path, default=Path("gpu.json"), help="the file (gpu.json)")
    options = parser.parse_args(arguments)
    device = select_device(options.device)
    if device.type == "cpu":
        torch.set_num_threads(1)  # as the tests; steps are too small for more
    report = Report(
        options.out, options.minutes, {**about(device), "tiny": options.tiny, "bounds": BOUNDS}
    )
    if options.tests:
        report.content["tests"] = options.tests.read_text(encoding="utf-8")
    exact: dict[str, Trained] = {}
    shapes = [
        shape
        for shape in cross_entropy_shapes(tiny=options.tiny)
        if shape.model.kind in options.kinds
    ]
    for compiled in [False] if options.plain else [False, True]:
        for precision in precisions(device):
            for shape in shapes:
                names = {"kind": shape.model.kind, "precision": precision, "compiled": compiled}
                report.add(
                    "steps",
                    names,
                    lambda names=names, shape=shape: compared(shape, exact, device, **names),
                )
        if not compiled:  # quick, while passes take minutes to compile
            other_rows(report, device, tiny=options.tiny)
    return report.finish()


def other_rows(report: Report, device: torch.device, *, tiny: bool) -> None:
    """Add what is no training step: killed trainings,
    products of matrices, pictures through a backbone."""
    for stage in ("xe", "scst"):
        report.add("resume", {"stage": stage}, lambda stage=stage: resumed(stage, device))
    for precision in precisions(device):
        row = {"precision": precision}
        report.add("products", row, lambda name=precision: product_rate(device, name, tiny=tiny))
    report.add(
        "pictures", {}, lambda: picture_rate(device, "mobilenetv2_050" if tiny else "resnet101")
    )


class Report:
    """The file, which is written after each row."""

    def __init__(self, out: Path, minutes: float, content: dict[str, Any]) -> None:
        self.out, self.begun, self.end = out, time.monotonic(), time.monotonic() + 60 * minutes
        self.content: dict[str, Any] = {
            **content,
            "finished": False,
            "does_not_hold": [],
            "not_reached": [],
        }

    def add(self, part: str, names: dict[str, Any], compute: Callable[[], dict[str, Any]]) -> None:
        """Compute a row with these names, unless the time is over.

        An error becomes a row that does not hold.
        """
        label = ", ".join([part, *(f"{key} {value}" for key, value in names.items())])
        if time.monotonic() > self.end:
            self.content["not_reached"].append(label)
            return
        try:
            row = compute()
        except Exception as error:
            # the next row may work; what went wrong is what the reader of the file wants
            row = {"holds": False, "error": "".join(traceback.format_exception(error))}
            traceback.print_exception(error)
        self.content.setdefault(part, []).append({**names, **row})
        if not row["holds"]:
            self.content["does_not_hold"].append(label)
        numbers = [
            f"{key} {value}"
            for key, value in row.items()
            if key not in ("losses", "exact", "error")
        ]
        print(f"{label}: {', '.join(numbers)}", flush=True)
        write_json(self.out, self.content)

    def finish(self) -> int:
        """Print the summary; return the exit status."""
        minutes = (time.monotonic() - self.begun) / 60
        write_json(self.out, {**self.content, "finished": True, "minutes": rounded(minutes)})
        wrong, late = self.content["does_not_hold"], self.content["not_reached"]
        print(
            f"\n{self.content['machine']}, {minutes:.1f} minutes; the file to send in: {self.out}"
        )
        if late:
            print(
                f"not reached in time: {len(late)} rows, the first: {late[0]}; more time: --minutes"
            )
        for label in wrong:
            print(f"does not hold: {label}")
        if not wrong:
            print("everything that was compared holds")
        return 1 if wrong else 0


def about(device: torch.device) -> dict[str, Any]:
    """Return the machine and the versions."""
    gpu = torch.cuda.get_device_properties(device) if device.type == "cuda" else None
    return {
        "machine": machine(device),
        "device": device.type,
        "gpu": str(gpu) if gpu else None,
        "cpu": machine(CPU),
        "threads": torch.get_num_threads(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "recap": VERSION,
        "commit": commit(),
        "measured_on": str(date.today()),
    }


def precisions(device: torch.device) -> list[str]:
    """Return the precisions to compare; TF32, which trainings on a GPU take, is there alone."""
    return ["tf32", "bf16", "float32"] if device.type == "cuda" else ["float32", "bf16"]


def cross_entropy_shapes(*, tiny: bool) -> Iterator[StepShape]:
    """Yield the cross-entropy step of every kind, of few images and without dropout."""
    for shape in paper_shapes(tiny=tiny, precisions=["float32"]):
        if shape.work == "xe":
            yield replace(shape, model=without_dropout(shape.model), images=IMAGES)


def without_dropout(settings: ModelConfig) -> ModelConfig:
    """Return the settings with all dropout at 0; its keys end in that word."""
    changes = {key: 0.0 for key in type(settings).model_fields if key.endswith("dropout")}
    return type(settings).model_validate({**settings.model_dump(), **changes})


def compared(
    shape: StepShape,
    exact: dict[str, Trained],
    device: torch.device,
    *,
    kind: str,
    precision: str,
    compiled: bool,
) -> dict[str, Any]:
    """Train on the device, and in float64 on the CPU if that is not in `exact` yet.

    Return the row.
    """
    if kind not in exact:
        exact[kind] = trained(shape, CPU, "float64", compiled=False)
    expected, found = exact[kind], trained(shape, device, precision, compiled=compiled)
    differences = [
        abs(ours - theirs) for ours, theirs in zip(found.losses, expected.losses, strict=True)
    ]
    difference = max(differences) / expected.losses[0]  # later losses may be near 0
    equal = (found.captions == expected.captions).all(-1).double().mean().item()
    # Rounding in half of the bits may turn a word,
    # so that captions are compared in full precision alone.
    holds = difference <= BOUNDS[precision] and (equal == 1 or precision != "float32")
    return {
        "difference": float(f"{difference:.2g}"),
        "bound": BOUNDS[precision],
        "equal_captions": equal,
        "seconds": rounded(found.seconds),
        "peak_mb": found.peak_mb,
        "ran_compiled": found.compiled,
        "holds": holds and found.compiled == compiled,
        "losses": found.losses,
        "exact": expected.losses,
    }


def trained(shape: StepShape, device: torch.device, precision: str, *, compiled: bool) -> Trained:
    """Take the steps and search for captions, with the weights and data of seed 0."""
    torch.manual_seed(0)
    torch.compiler.reset()
    if device.type == "cuda":
        prepare_gpu(tf32=precision == "tf32")
        torch.cuda.reset_peak_memory_stats(device)
    number_type = "bf16" if precision == "bf16" else "float32"
    trial = Trial(replace(shape, settings=CrossEntropy(**RECIPE, precision=number_type)), device)
    images, captions = trial.images(IMAGES), trial.captions(IMAGES)
    if precision == "float64":
        trial.model.double()
        images = Images({name: double(stream) for name, stream in images.streams.items()})
    if compiled:
        compile_passes(trial.model)
    batch = Batch.of(list(captions), images, caption_tensor(list(captions.values()))).to(device)
    step = trial.optimizer_step(captions)
    losses, seconds = [], []
    for number in range(STEPS):
        begun = time.perf_counter()
        losses.append(step(batch, Counters(step=number), steps=STEPS)["loss"])
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        seconds.append(time.perf_counter() - begun)
    trial.model.eval()
    with mixed(number_type, device):
        words = trial.search(batch.images, DecodingSettings(beam=BEAM))[:, 0].cpu()
    peak = rounded(torch.cuda.max_memory_allocated(device) / 1e6) if device.type == "cuda" else None
    return Trained(losses, words, median(seconds[STEPS // 2 :]), peak, is_compiled(trial.model))


def double(stream: Stream) -> Stream:
    """Return a stream in float64."""
    assert stream.boxes is not None and stream.sizes is not None
    return Stream(stream.values.double(), stream.mask, stream.boxes.double(), stream.sizes.double())


def resumed(stage: str, device: torch.device) -> dict[str, Any]:
    """Run a tiny training twice to its end, and once killed on the way and continued.

    Compare the weights' bytes.
    """
    with TemporaryDirectory(prefix="recap-gpu-") as name:
        first, second, killed = (Path(name) / each for each in ("first", "second", "killed"))
        process = subprocess.Popen(
            **train_command(stage, device, killed), stderr=subprocess.DEVNULL
        )
        while process.poll() is None and not (killed / STATE).exists():
            time.sleep(0.001)
        process.kill()  # after the first epoch
        if process.wait() == 0:
            raise RecapError("the training ended before it could be killed; run this again")
        for folder in (first, second, killed):
            done = subprocess.run(
                **train_command(stage, device, folder), capture_output=True, text=True, check=False
            )
            if done.returncode != 0:
                raise RecapError(f"the {folder.name} training of {stage} failed: {done.stderr}")
        weights = [sha256_file(folder / BEST) for folder in (first, second, killed)]
    resumes = weights[2] == weights[0]
    return {"repeats": weights[1] == weights[0], "resumes": resumes, "holds": resumes}


def train_command(stage: str, device: torch.device, folder: Path) -> dict[str, Any]:
    """Return how `train` is started in a process of its own."""
    call = f"from benchmarks.gpu import train; train({stage!r}, {device.type!r}, {str(folder)!r})"
    return {"args": [sys.executable, "-c", call], "cwd": Path(__file__).parents[1]}


def train(stage: str, device: str, folder: str) -> None:
    """Train a tiny model by a stage, xe or scst, with dropout.

    Continue if the folder has a state.
    """
    torch.set_num_threads(1)
    if device == "cuda":
        prepare_gpu(tf32=True)
    torch.manual_seed(0)
    settings = {"epochs": EPOCHS, "learning_rate": 1e-3, "images_per_batch": 5}
    tiny = next(
        each
        for each in paper_shapes(tiny=True, precisions=["float32"])
        if each.model.kind == KILLED
    )
    shape = replace(
        tiny, settings=CrossEntropy(**settings) if stage == "xe" else SelfCritical(**settings)
    )
    trial = Trial(shape, torch.device(device))
    features, captions = InMemory(trial.images(TRAINED)), trial.captions(TRAINED)
    Path(folder).mkdir(exist_ok=True)
    training = Training(
        step=trial.optimizer_step(captions),
        state=Path(folder),
        batches=CaptionBatches(features=features, captions=captions, images_per_batch=5, seed=3),
        validate=lambda: float(training.progress.step),  # the last epoch is the best
        identity={"stage": stage},
        name=f"tiny {KILLED}, {stage}",
    )
    training.run()


class InMemory:
    """Features of images that are in memory."""

    def __init__(self, images: Images) -> None:
        self.images = images

    def read(self, image_ids: Sequence[int]) -> Images:
        """Return the features of some images."""
        return self.images.select(torch.tensor(list(image_ids)))


def product_rate(device: torch.device, precision: str, *, tiny: bool) -> dict[str, Any]:
    """Time a product of large square matrices."""
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    edge = 256 if tiny else 8192 if device.type == "cuda" else 1024
    with mixed("bf16" if precision == "bf16" else "float32", device), torch.no_grad():
        left, right = torch.rand(2, edge, edge, device=device)
        return {
            "tflops": rounded(2 * edge**3 / quickest(lambda: left @ right, device) / 1e12),
            "holds": True,
        }


def picture_rate(device: torch.device, backbone: str) -> dict[str, Any]:
    """Time a batch of pictures through a backbone with random weights."""
    settings = GridFeatures.model_validate(
        {"kind": "grid", "backbone": backbone, "weights": "random", "grid": 7}
    )
    encoder = Backbone(settings, weights=None, device=device)
    count = 32 if device.type == "cuda" else 2
    pictures = torch.randint(
        256, (count, settings.image_size, settings.image_size, 3), dtype=torch.uint8
    )
    rate = count / quickest(lambda: encoder.rows(pictures), device)
    return {"backbone": backbone, "pictures_per_second": rounded(rate), "holds": True}


def quickest(work: Callable[[], Any], device: torch.device) -> float:
    """Return the seconds of the quickest of five, after two to warm up."""
    return min([elapsed(work, device) for _ in range(7)][2:])


if __name__ == "__main__":
    try:
        sys.exit(main())
    except RecapError as error:  # no GPU
        sys.exit(f"benchmarks.gpu: {error}")
