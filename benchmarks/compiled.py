"""Kernels of a cross-entropy step under torch.compile,
counted from the code that the inductor generates on this CPU.

    python -m benchmarks.compiled [KIND ...]

Forward and backward; clipping and the optimizer are a few fused kernels on a GPU either way. Plain
launches are torch's operators that compute. Compiled ones are the calls of generated and of library
kernels in the code of each graph, times the calls of the graph, and the operators outside of graphs
(output layer, loss, a recurrent model's projections). Of these, products and attentions are the
library's and cannot become fewer. Triton on a GPU fuses otherwise than g++ here. Sizes are the
papers', but for the number of images, on which no count depends.
"""

import re
import sys
import time

import torch
from torch._inductor.utils import run_and_get_code

from recap.measure.steps import Operations, Trial, paper_shapes
from recap.models.compiled import BUCKET, compile_passes
from recap.runs.inputs import caption_tensor
from recap.training.batches import Batch

FUSED = re.compile(r"^\s+cpp_fused\w*\(", re.MULTILINE)
LIBRARY = re.compile(r"extern_kernels\.\w+\(|(?:= |^\s+)torch\.ops\.[\w.]+\(", re.MULTILINE)
IMAGES = 2
WORD_IMAGES = 11  # unlike the sizes of a word, which the compiler would take for the same one


def count(shape) -> str:
    """Return the row of one kind."""
    torch.manual_seed(0)
    trial = Trial(shape, torch.device("cpu"))
    model, captions, images = trial.model, trial.captions(IMAGES), trial.images(IMAGES)
    batch = Batch.of(list(captions), images, caption_tensor(list(captions.values())))
    objective = trial.objective(captions)

    def run() -> None:
        torch.manual_seed(1)
        model.zero_grad()
        objective(batch).loss.backward()

    run()
    with Operations() as step:
        run()
    plain = timed(run)
    compile_passes(model)
    length = batch.tokens.shape[-1] - 1
    words = length + (-length % BUCKET if model.in_buckets else 0)
    # Within such a mode compiled passes run as they are,
    # so that what they compute is counted here and taken off.
    with Operations() as padded:
        run()
    model.zero_grad()
    with Operations() as passes:
        tokens = torch.nn.functional.pad(batch.tokens[..., :-1], (0, words - length))
        model.decode(tokens, model.encode(batch.images)).sum().backward()
    outside = padded.launches - passes.launches

    def encode() -> None:
        values = model.encode(batch.images).values
        if values.requires_grad:  # an encoder may have no weights
            values.sum().backward()

    begun = time.process_time()
    encoder, graphs = (kernels(run_and_get_code(function)[1]) for function in (encode, run))
    took = time.process_time() - begun  # of this process; the C++ compilers' seconds come to it
    words_graphs = graphs.copy()
    for graph in encoder:
        words_graphs.remove(graph)
    # The first word of a loop has graphs
    # of its own where its state has other types, with nearly as many kernels.
    calls = words / (len(words_graphs) // 2) if "advance" in model.compiled_passes else 1
    inside = sum(map(sum, encoder)) + round(calls * sum(map(sum, words_graphs)))
    fused, library = zip(*graphs, strict=True)
    compiled = timed(run)
    word, of_a_word, word_took = count_word(model, trial.images(WORD_IMAGES))
    total = outside + inside
    graph_counts = f"{str(fused)[1:-1]} | {str(library)[1:-1]}"
    counts = f"{step.launches} | {outside} | {graph_counts} | {total} | {total / step.launches:.2f}"
    counts += f" | {word} | {of_a_word} | {of_a_word / word:.2f}"
    return (
        f"| {shape.model.kind} | {counts} | {took:.0f} + {word_took:.0f} s | {plain:.2f} s | "
        f"{compiled:.2f} s |"
    )


@torch.no_grad()
def count_word(model, images) -> tuple[int, int, float]:
    """Return the launches of a step of a search,
    plain and compiled, and the CPU seconds of its compilation."""
    model.eval()
    beams = torch.zeros(len(images), 3, dtype=torch.long)

    def words(step) -> None:
        state = model.start(model.encode(images)).reorder(beams)
        for _ in range(3):
            state = step(beams, state)[1]

    states = []
    words(lambda tokens, state: states.append(state) or model.step(tokens, state))
    with Operations() as plain:  # within which a compiled step runs as it is
        model.step(beams, states[-1])
    torch._dynamo.reset()
    begun = time.process_time()
    _, codes = run_and_get_code(words, model.step)
    (graph,) = kernels(codes)  # one serves all words
    return plain.launches, sum(graph), time.process_time() - begun


def kernels(codes) -> list[tuple[int, int]]:
    """Return the fused and the library kernels that the code of each graph calls."""
    bodies = [code.partition("def call(")[2] for code in codes]
    return [(len(FUSED.findall(body)), len(LIBRARY.findall(body))) for body in bodies]


def timed(run) -> float:
    """Return the least CPU seconds of three steps."""
    least = float("inf")
    for _ in range(3):
        begun = time.process_time()
        run()
        least = min(least, time.process_time() - begun)
    return least


if __name__ == "__main__":
    torch.set_num_threads(1)
    graphs = "plain | outside of graphs | fused | library | compiled | ratio"
    print(f"| kind | {graphs} | word | compiled | ratio | compile | step | compiled |")
    print("|---|--:|--:|---|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    for shape in paper_shapes(tiny=False, precisions=["float32"]):
        if shape.work == "xe" and shape.model.kind in (sys.argv[1:] or [shape.model.kind]):
            torch._dynamo.reset()
            print(count(shape), flush=True)
