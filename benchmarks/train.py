"""The two training steps against what released code does: `xe.transformer` and
`scst.transformer`."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks import cached, plain
from benchmarks.figures import Case, seconds
from benchmarks.shapes import CAPTIONS, LENGTH, WORDS, batch, captions, models, vectors
from benchmarks.step import Step, floor
from recap.models.base import Captioner
from recap.models.images import Images
from recap.nn.fast import fixed_weights
from recap.nn.rows import PackedIndex
from recap.settings import CrossEntropy, SelfCritical, Stage
from recap.training.batches import Batch
from recap.training.objectives import CrossEntropyObjective, SelfCriticalObjective
from recap.training.optim import build_optimizer, clip_gradients

SHAPES = f"6+6 layers of 512, 10 images x {CAPTIONS}, 50 regions of 2048, {WORDS} words"


def update(
    loss: Callable[[], Tensor], optimizer: torch.optim.Optimizer, clip: Callable[[], object]
) -> Step:
    """Return a step: forward, backward, clipping, optimiser."""

    def step() -> None:
        value = loss()
        optimizer.zero_grad(set_to_none=True)
        value.backward()
        clip()
        optimizer.step()

    return step


def updates(
    stage: Stage,
    model: Captioner,
    loss: Callable[[], Tensor],
    slow: Captioner,
    released: Callable[[], Tensor],
) -> tuple[Step, Step]:
    """Return our step, and that of released code: Adam, each gradient entry clipped."""
    adam = torch.optim.Adam(
        slow.parameters(), lr=stage.schedule.learning_rate, betas=stage.betas, eps=stage.epsilon
    )
    ours = update(
        loss,
        build_optimizer(model.parameters(), stage),
        lambda: clip_gradients(model.parameters(), stage),
    )
    return ours, update(
        released, adam, lambda: torch.nn.utils.clip_grad_value_(slow.parameters(), 0.1)
    )


def xe(kind: str = "transformer") -> Case:
    """Forward, backward, clipping and Adam of 50 captions of 7 to 16 words."""
    model, slow = models(kind)
    data = batch()
    agreement = _same_loss(model, slow, data)
    stage = CrossEntropy(epochs=1, learning_rate=1e-5)
    objective = CrossEntropyObjective(model, stage)

    def released() -> Tensor:
        return plain.cross_entropy(slow.train(), *vectors(data), data.tokens)

    ours, reference = updates(stage, model, lambda: objective(data).loss, slow, released)

    return Case(f"xe.{kind}", SHAPES, ours, reference, agreement, lambda: floor(ours))


def scst(kind: str = "transformer") -> Case:
    """Sampling, reward, loss, backward and Adam of 50 random captions.

    Both sample without dropout.
    """

    def draw(slow: Captioner, data: Batch) -> tuple[Tensor, Tensor]:
        memory = slow.encode(Images.of(*plain.repeated(*vectors(data), CAPTIONS)))
        return plain.sample(slow, memory, LENGTH)

    return _scst(f"scst.{kind}", kind, draw)


def scst_cached() -> Case:
    """The same against a Transformer that keeps words and graph in caches."""

    def draw(slow: Captioner, data: Batch) -> tuple[Tensor, Tensor]:
        return cached.sample(cached.Decoding(slow, *vectors(data), CAPTIONS), LENGTH)

    return _scst("scst.transformer.cached", "transformer", draw)


def _scst(name: str, kind: str, draw: Callable[[Captioner, Batch], tuple[Tensor, Tensor]]) -> Case:
    model, slow = (m.eval() for m in models(kind))
    data, references = batch(), captions(seed=2)
    stage = SelfCritical(epochs=1, learning_rate=1e-6)
    objective = SelfCriticalObjective(model, stage, references=references, max_length=LENGTH)
    scorer = plain.DictionaryCiderD(
        {i: [[*words, plain.EOS] for words in rows] for i, rows in references.items()}
    )

    def released() -> Tensor:
        words, chosen = draw(slow, data)
        owners = [image for image in data.image_ids for _ in range(CAPTIONS)]
        rewards = torch.tensor(scorer.score(owners, words.tolist()), dtype=chosen.dtype).view(
            -1, CAPTIONS
        )
        others = (rewards.sum(1, keepdim=True) - rewards) / (CAPTIONS - 1)
        return -(chosen * (rewards - others).view(-1, 1)).mean()

    ours, reference = updates(stage, model, lambda: objective(data).loss, slow, released)

    def split() -> dict[str, object]:
        with fixed_weights():
            memory = model.encode(data.images)
            sampled, _ = objective.draw(memory)
            drawing = seconds(lambda: objective.draw(memory))
            reward = seconds(lambda: objective.reward(data.image_ids, sampled))
        whole = seconds(ours)
        parts = {
            "decode": drawing,
            "reward": reward,
            "forward_backward_and_optimiser": whole - drawing - reward,
        }
        return {"split": {name: round(value, 4) for name, value in parts.items()}, **floor(ours)}

    agreement = "gradient equal without dropout, see tests/unit/training/test_loop.py"
    return Case(name, f"{SHAPES}, length {LENGTH}", ours, reference, agreement, split)


@torch.no_grad()
def _same_loss(model: Captioner, slow: Captioner, data) -> str:
    model.eval(), slow.eval()
    inputs, real = data.tokens[..., :-1], data.tokens[..., 1:] != plain.PAD
    hidden = model.decode_words(inputs, PackedIndex(real), model.encode(data.images))
    ours = torch.nn.functional.cross_entropy(model.logits(hidden), data.tokens[..., 1:][real])
    theirs = plain.cross_entropy(slow, *vectors(data), data.tokens)
    return f"losses without dropout differ by {abs(ours - theirs).item():.1e}"
