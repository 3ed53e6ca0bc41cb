"""X-LAN, X-Transformer and AoANet at COCO's sizes:
cross-entropy step, self-critical step and beam search.

`python -m benchmarks.stepwise` tells the memory of the training steps, each in a process of its
own.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from benchmarks import plain_aoanet, plain_decoding, plain_x_linear
from benchmarks.beam import search
from benchmarks.figures import Case, seconds, show
from benchmarks.plain import EOS, PAD, DictionaryCiderD, repeated
from benchmarks.shapes import CAPTIONS, FEATURES, LENGTH, WORDS, batch, captions, vectors
from benchmarks.step import cross_entropy, floor, learner, plain_learner
from helpers.model_cases import build_model
from recap.models.base import Captioner
from recap.models.images import InputSpec
from recap.nn.fast import fixed_weights
from recap.nn.rows import PackedIndex
from recap.settings import CrossEntropy, SelfCritical, Stage
from recap.training.objectives import (
    CrossEntropyObjective,
    SelfCriticalObjective,
    gather_log_probabilities,
)
from recap.training.optim import build_optimizer

SHAPES = f"10 images x {CAPTIONS}, 50 regions of 2048, {WORDS} words"
MODELS = {
    "xlan": "75.2 M parameters",
    "x_transformer": "137.5 M parameters",
    "aoanet": "six refiner layers of 1,024",
}
XE = {
    "xlan": CrossEntropy(epochs=1, learning_rate=1e-5, clip_norm=0.5, clip_value=None),
    "x_transformer": CrossEntropy(
        epochs=1, learning_rate=1e-5, label_smoothing=0.1, optimizer="radam"
    ),
    "aoanet": CrossEntropy(epochs=1, learning_rate=1e-5, label_smoothing=0.2),
}
SCST = {
    "xlan": SelfCritical(epochs=1, learning_rate=1e-6, baseline="greedy"),
    "x_transformer": SelfCritical(
        epochs=1, learning_rate=1e-6, baseline="greedy", optimizer="radam"
    ),
    "aoanet": SelfCritical(epochs=1, learning_rate=1e-6, baseline="greedy"),
}
ENCODE = {
    "xlan": plain_x_linear.encode,
    "x_transformer": plain_x_linear.encode,
    "aoanet": plain_aoanet.encode,
}
START = {
    "xlan": plain_x_linear.xlan_start,
    "x_transformer": plain_x_linear.x_transformer_start,
    "aoanet": plain_aoanet.start,
}
STEP = {
    "xlan": plain_x_linear.xlan_step,
    "x_transformer": plain_x_linear.x_transformer_step,
    "aoanet": plain_aoanet.step,
}
ENDED = {image: [[*words, EOS] for words in rows] for image, rows in captions(seed=2).items()}


def model_of(kind: str) -> Captioner:
    """Return the released sizes, which are the defaults, with the same random weights at each
    call."""
    torch.manual_seed(0)
    return build_model({"kind": kind}, InputSpec({"main": FEATURES}, WORDS))


def stage_of(name: str, kind: str) -> Stage:
    """Return the recipe of a step, `xe` or `scst`,
    as far as it costs time: optimiser, smoothing, clipping."""
    return XE[kind] if name == "xe" else SCST[kind]


def ours(model: Captioner, name: str, kind: str) -> Callable[[], None]:
    """Return our step of `xe` or `scst`."""
    data, stage = batch(), stage_of(name, kind)
    if isinstance(stage, CrossEntropy):
        objective: CrossEntropyObjective | SelfCriticalObjective = CrossEntropyObjective(
            model, stage
        )
    else:
        objective = SelfCriticalObjective(
            model, stage, references=captions(seed=2), max_length=LENGTH
        )
    return learner(
        model, build_optimizer(model.parameters(), stage), stage, lambda: objective(data).loss
    )


def plain(model: Captioner, name: str, kind: str) -> Callable[[], None]:
    """Return the released way of the same step."""
    loss = plain_xe_loss if name == "xe" else partial(plain_scst_loss, DictionaryCiderD(ENDED))
    return plain_learner(model, stage_of(name, kind), lambda: loss(model.train(name == "xe"), kind))


def plain_xe_loss(model: Captioner, kind: str) -> Tensor:
    """Loss of all captions, padded."""
    data = batch()
    rows = data.tokens.flatten(0, 1)
    if kind == "xlan":  # repeated after the encoder
        encoded = plain_x_linear.repeat(ENCODE[kind](model, *vectors(data)), CAPTIONS)
    else:
        encoded = ENCODE[kind](model, *repeated(*vectors(data), CAPTIONS))
    if kind == "x_transformer":
        scores = plain_x_linear.x_transformer_scores(model, rows[:, :-1], encoded)
    else:
        scores = plain_x_linear.by_word(START[kind], STEP[kind], model, rows[:, :-1], encoded)
    return plain_decoding.padded_loss(scores, rows, XE[kind].label_smoothing)


def plain_sample(model: Captioner, kind: str, said: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Draw with a graph, of images repeated before the encoder."""
    data = batch()
    encoded = ENCODE[kind](model, *repeated(*vectors(data), CAPTIONS))
    return plain_decoding.sample(STEP[kind], model, START[kind](model, encoded), LENGTH, said)


def plain_greedy(model: Captioner, kind: str) -> Tensor:
    """Say the likeliest words of every image."""
    data = batch()
    with torch.no_grad():
        encoded = ENCODE[kind](model, *vectors(data))
        return plain_decoding.greedy(STEP[kind], model, START[kind](model, encoded), LENGTH)


def plain_scst_loss(scorer: DictionaryCiderD, model: Captioner, kind: str) -> Tensor:
    """Greedy captions, samples with their graph, rewards from dictionaries."""
    images = batch().image_ids
    baseline = torch.tensor(scorer.score(images, _words(plain_greedy(model, kind))))
    said, chosen = plain_sample(model, kind)
    rewards = torch.tensor(scorer.score([i for i in images for _ in range(CAPTIONS)], _words(said)))
    advantage = rewards - baseline.repeat_interleave(CAPTIONS)
    return -(chosen * advantage.to(chosen.dtype)[:, None]).sum() / (said != PAD).sum()


def _words(said: Tensor) -> list[list[int]]:
    return [[word for word in row if word != PAD] for row in said.tolist()]


def xe(kind: str) -> Case:
    """A cross-entropy step."""
    shapes = f"{MODELS[kind]}, {SHAPES}"
    return cross_entropy(
        f"xe.{kind}", shapes, XE[kind], partial(model_of, kind), partial(plain_xe_loss, kind=kind)
    )


def scst(kind: str) -> Case:
    """Greedy baseline, 50 samples, reward, loss, backward and Adam.

    Nothing drops out on either side.
    """
    model, slow = model_of(kind).eval(), model_of(kind).eval()
    data = batch()
    objective = SelfCriticalObjective(
        model, SCST[kind], references=captions(seed=2), max_length=LENGTH
    )
    with fixed_weights():
        memory = model.encode(data.images)
        said, best = objective.draw(memory)
        index = PackedIndex(said != PAD)
        scored = gather_log_probabilities(
            objective.log_policy(memory, said, index), said, index
        ).flatten(0, 1)
        padding = (0, LENGTH - said.shape[-1])
        forced = plain_sample(slow, kind, torch.nn.functional.pad(said.flatten(0, 1), padding))[1]
        difference = (torch.nn.functional.pad(scored, padding) - forced).abs().max().item()
        same = (best[:, 0] == plain_greedy(slow, kind)).float().mean().item()
    step = ours(model, "scst", kind)

    def split() -> dict[str, object]:
        with fixed_weights():
            draw = seconds(lambda: objective.draw(memory))
            reward = seconds(lambda: objective.reward(data.image_ids, said))
        parts = {
            "samples and greedy": draw,
            "reward": reward,
            "rest": seconds(step) - draw - reward,
        }
        return {"split": {name: round(value, 4) for name, value in parts.items()}, **floor(step)}

    agreement = (
        f"log-probabilities of one sample differ by {difference:.1e}, {100 * same:.1f} % of greedy "
        "words equal"
    )
    shapes = f"{MODELS[kind]}, {SHAPES}, length {LENGTH}"
    return Case(f"scst.{kind}", shapes, step, plain(slow, "scst", kind), agreement, split)


def beam(kind: str) -> Case:
    """Beam search of width 5."""
    model, slow = model_of(kind).eval(), model_of(kind).eval()
    data, fast = batch(), search(model)

    @torch.no_grad()
    def reference() -> Tensor:
        encoded = ENCODE[kind](slow, *vectors(data))
        return plain_decoding.beam_search(STEP[kind], slow, START[kind](slow, encoded), 5, LENGTH)

    same = (fast() == reference()).float().mean().item()
    shapes = f"{MODELS[kind]}, 10 images x 50 regions, beam 5, {LENGTH} words of {WORDS}"
    agreement = f"{100 * same:.1f} % of the words equal"
    return Case(f"beam.{kind}", shapes, fast, reference, agreement, lambda: floor(fast))


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def peak(name: str, kind: str, way: str) -> None:
    """Print what two steps take above the model: gradients, moments and activations, in MiB."""
    model = model_of(kind)
    before = resident()
    step = ours(model, name, kind) if way == "ours" else plain(model, name, kind)
    step()
    step()  # the allocator's second round
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    show({"name": f"memory.{name}.{kind}", "way": way, "mib": round((most - before) / 2**20)})


def main() -> None:
    """Measure each step in a fresh process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", nargs=3, metavar=("STEP", "MODEL", "WAY"))
    arguments = parser.parse_args()
    if arguments.one:
        return peak(*arguments.one)
    for name in ("xe", "scst"):
        for kind in MODELS:
            for way in ("ours", "plain"):
                subprocess.run(
                    [sys.executable, "-m", "benchmarks.stepwise", "--one", name, kind, way],
                    check=True,
                )
    return None


if __name__ == "__main__":
    main()
