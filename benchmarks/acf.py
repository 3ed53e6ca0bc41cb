"""Ada-ClustFormer: its clustering matrix against the direct form,
and its cost beside the Transformer's.

`python -m benchmarks.acf` prints the time and the memory of the matrix as the number of elements
grows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from resource import RUSAGE_SELF, getrusage

import torch
from torch import Tensor

from benchmarks import plain
from benchmarks.figures import Case, clocks, machine, show
from benchmarks.shapes import CAPTIONS, LENGTH, WORDS, captions
from benchmarks.train import update
from helpers.model_cases import build_model
from recap.decoding.beam import beam_search
from recap.decoding.step import DecodingBatch
from recap.models.base import Captioner
from recap.models.images import Images, InputSpec
from recap.nn.fast import fixed_weights
from recap.nn.rows import Rows
from recap.papers.acf.model import LineClusters, clusters
from recap.papers.acf.settings import AcfModel
from recap.runs.inputs import caption_tensor
from recap.settings import CrossEntropy, DecodingSettings
from recap.training.batches import Batch
from recap.training.objectives import CrossEntropyObjective
from recap.training.optim import build_optimizer, clip_gradients

CELLS, WIDTH, BATCH = 144, 512, 40
# elements; beyond the latter the direct form takes tens of GB
CURVE, MOST_DIRECT = (20, 144, 576, 2304), 576
IMAGES, FEATURES = 10, 1536  # the grid features of the paper have this width


def adaptive(width: int = WIDTH) -> LineClusters:
    """Return the clusters of one layer along a line."""
    torch.manual_seed(0)
    settings = AcfModel(kind="acf", d_model=width, cluster_norm=False, stacking="none")
    return LineClusters(settings, rate=1)


def direct(module: LineClusters, x: Tensor) -> Tensor:
    """Return C [B, N, N] of x [B, N, D] with a vector for each pair: the FC of Eq. 4 on [s_k .

    Mean(s_i .. s_k-1)].
    """
    length = x.shape[1]
    prefix = torch.nn.functional.pad(x.cumsum(1), (0, 0, 1, 0))
    position = torch.arange(length)
    counts = (position - position[:, None]).clamp(min=1)[..., None]
    means = (prefix[:, None, :-1] - prefix[:, :-1, None]) / counts  # [B, i, k, D]
    pairs = torch.cat([x[:, None].expand(-1, length, -1, -1), means], -1)  # [B, i, k, 2 D]
    merge = torch.sigmoid(module.scores(pairs)[..., 0])
    upper = torch.where(position > position[:, None], merge, 1.0).cumprod(-1).triu(1)
    return upper + upper.mT + torch.eye(length)


def matrix(cells: int = CELLS, width: int = WIDTH, batch: int = BATCH) -> Case:
    """C of a layer and its gradient for input and weights."""
    module = adaptive(width)
    x = torch.randn(batch, cells, width, requires_grad=True)
    weight = torch.rand(batch, cells, cells)

    def gradient(c: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad(c, [x, *module.parameters()], weight)

    def ours() -> tuple[Tensor, ...]:
        return gradient(clusters(module(Rows(x[:, None]), ())[0][:, 0]))

    def reference() -> tuple[Tensor, ...]:
        return gradient(direct(module, x))

    scale = [found.abs().max() for found in ours()]
    most = max(
        ((a - b).abs().max() / s).item() for a, b, s in zip(ours(), reference(), scale, strict=True)
    )
    shapes = f"{batch} lines of {cells} elements of width {width}, forward and backward"
    return Case(
        "acf.matrix",
        shapes,
        ours,
        reference,
        f"gradients differ by {most:.1e} of their largest entry",
    )


def curve() -> Iterator[dict[str, object]]:
    """Processor seconds and memory of one line of 20 to 2,304 elements,
    with the exponent since the point before."""
    before: dict[str, float] = {}
    for cells in CURVE:
        for name in ("ours", "direct") if cells <= MOST_DIRECT else ("ours",):
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
                taken, memory = process.submit(_cost, name, cells).result()
            point: dict[str, object] = {"name": f"curve.acf.matrix.{name}", "elements": cells}
            point |= {"cpu_seconds": round(taken, 6), "mebibytes": round(memory, 1)}
            if name in before:
                growth = cells / CURVE[CURVE.index(cells) - 1]
                point["exponent"] = round(math.log(taken / before[name]) / math.log(growth), 2)
            before[name] = taken
            yield point


def _cost(name: str, cells: int) -> tuple[float, float]:
    torch.set_num_threads(1)
    matrix(20, batch=1).ours()  # what torch allocates once
    module = adaptive()
    x = torch.randn(1, cells, WIDTH, requires_grad=True)

    def step() -> None:
        c = clusters(module(Rows(x[:, None]), ())[0]) if name == "ours" else direct(module, x)
        torch.autograd.grad(c.sum(), [x, *module.parameters()])

    held = getrusage(RUSAGE_SELF).ru_maxrss
    step()
    memory = (getrusage(RUSAGE_SELF).ru_maxrss - held) / 1024
    return min(clocks(step)[1] for _ in range(20 if name == "ours" else 2)), memory


def _models() -> tuple[Captioner, Captioner]:
    """Return Ada-ClustFormer and the Transformer of the same sizes."""
    torch.manual_seed(0)
    kinds = ({"kind": "acf"}, {"kind": "transformer"})
    acf, transformer = (build_model(kind, InputSpec({"main": FEATURES}, WORDS)) for kind in kinds)
    return acf, transformer


def _batch() -> Batch:
    words = captions()
    values = torch.randn(IMAGES, CELLS, FEATURES, generator=torch.Generator().manual_seed(1))
    images = Images.of(values, torch.ones(IMAGES, CELLS, dtype=torch.bool))
    return Batch.of(list(range(IMAGES)), images, caption_tensor([words[i] for i in range(IMAGES)]))


def xe() -> Case:
    """A step of cross-entropy beside that of the Transformer:
    a ratio of 0.8 is 1.25 times its time."""
    data, stage = _batch(), CrossEntropy(epochs=1, learning_rate=1e-5)

    def step(model: Captioner) -> Callable[[], None]:
        objective = CrossEntropyObjective(model.train(), stage)
        optimizer = build_optimizer(model.parameters(), stage)
        return update(
            lambda: objective(data).loss,
            optimizer,
            lambda: clip_gradients(model.parameters(), stage),
        )

    ours, reference = map(step, _models())
    reference()
    shapes = (
        f"6+6 layers of 512, 10 images x {CAPTIONS}, {CELLS} cells of {FEATURES}, {WORDS} words"
    )
    return Case("acf.xe", shapes, ours, reference, "another model: the Transformer of these sizes")


def beam() -> Case:
    """A beam search, beside that of the Transformer."""
    data = _batch()

    def search(model: Captioner) -> Callable[[], Tensor]:
        model.eval()

        @fixed_weights()
        def run() -> Tensor:
            start = DecodingBatch(IMAGES, plain.BOS, plain.EOS, plain.PAD, data.images.device)
            settings = DecodingSettings(beam=5, max_length=LENGTH)
            return beam_search(
                model.step, model.start(model.encode(data.images)), start, settings
            ).tokens

        return run

    ours, reference = map(search, _models())
    reference()
    shapes = f"6+6 layers of 512, 10 images x {CELLS} cells, beam 5, {LENGTH} words of {WORDS}"
    return Case(
        "acf.beam", shapes, ours, reference, "another model: the Transformer of these sizes"
    )


def main() -> None:
    """Print the curve."""
    for point in curve():
        show(point | machine())


if __name__ == "__main__":
    main()
