"""The two training steps against what released code does: `xe.transformer` and `scst.transformer`."""

from __future__ import annotations

import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import plain
from benchmarks.figures import Case, product_rate, seconds
from benchmarks.shapes import CAPTIONS, LENGTH, WORDS, batch, captions, models
from recap.core.config import CrossEntropy, SelfCritical
from recap.models.base import Captioner
from recap.training.cross_entropy import CrossEntropyObjective
from recap.training.optim import build_optimizer, clip_gradients
from recap.training.self_critical import SelfCriticalObjective

SHAPES = f"6+6 layers of 512, 10 images x {CAPTIONS}, 50 regions of 2048, {WORDS} words"


def xe(kind: str = "transformer") -> Case:
    """Forward, backward, clipping and Adam of 50 captions of 7 to 16 words."""
    stage = CrossEntropy(epochs=1, learning_rate=1e-5)
    model, slow = models(kind)
    data, objective = batch(), CrossEntropyObjective(model, stage)
    optimizer = build_optimizer(model.parameters(), stage)
    adam = torch.optim.Adam(slow.parameters(), lr=1e-5, betas=stage.betas, eps=stage.epsilon)
    agreement = _same_loss(model, slow, data)

    def ours() -> None:
        loss, _ = objective(data)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        clip_gradients(model.parameters(), stage)
        optimizer.step()

    def reference() -> None:
        slow.train()
        loss = plain.cross_entropy(slow, data.features, data.mask, data.tokens)
        adam.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_value_(slow.parameters(), 0.1)
        adam.step()

    def floor() -> dict[str, object]:
        with FlopCounterMode(display=False) as counter:
            ours()
        flops, rate = counter.get_total_flops(), product_rate()
        bound = flops / rate
        return {"gflop": round(flops / 1e9), "gflop_per_s": round(rate / 1e9), "floor_seconds": round(bound, 3)}

    return Case(f"xe.{kind}", SHAPES, ours, reference, agreement, floor)


def scst(kind: str = "transformer") -> Case:
    """Sampling, reward, loss, backward and Adam of 50 random captions; both sample without dropout."""
    stage = SelfCritical(epochs=1, learning_rate=1e-6)
    references = captions(seed=2)
    model, slow = (m.eval() for m in models(kind))
    data = batch()
    objective = SelfCriticalObjective(model, stage, references=references, max_length=LENGTH)
    scorer = plain.DictionaryCiderD({i: [[*words, plain.EOS] for words in rows] for i, rows in references.items()})
    optimizer = build_optimizer(model.parameters(), stage)
    adam = torch.optim.Adam(slow.parameters(), lr=1e-6, betas=stage.betas, eps=stage.epsilon)

    def ours() -> None:
        loss, _ = objective(data)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        clip_gradients(model.parameters(), stage)
        optimizer.step()

    def reference() -> None:
        memory = slow.encode(*plain.repeated(data.features, data.mask, CAPTIONS))
        words, chosen = plain.sample(slow, memory, LENGTH)
        owners = [image for image in data.image_ids for _ in range(CAPTIONS)]
        rewards = torch.tensor(scorer.score(owners, words.tolist()), dtype=chosen.dtype).view(-1, CAPTIONS)
        others = (rewards.sum(1, keepdim=True) - rewards) / (CAPTIONS - 1)
        loss = -(chosen * (rewards - others).view(-1, 1)).mean()
        adam.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_value_(slow.parameters(), 0.1)
        adam.step()

    def split() -> dict[str, object]:
        with torch.no_grad():
            memory = model.encode(data.features, data.mask)
            sampled = objective._draw(memory)
            draw = seconds(lambda: objective._draw(memory))
            reward = seconds(lambda: objective._reward(data.image_ids, sampled))
        whole = seconds(ours)
        parts = {"decode": draw, "reward": reward, "forward_backward_and_optimiser": whole - draw - reward}
        return {"split": {name: round(value, 4) for name, value in parts.items()}}

    agreement = "gradient equal without dropout, see tests/unit/test_training.py"
    return Case(f"scst.{kind}", f"{SHAPES}, length {LENGTH}", ours, reference, agreement, split)


@torch.no_grad()
def _same_loss(model: Captioner, slow: Captioner, data) -> str:
    model.eval(), slow.eval()
    inputs, real = data.tokens[..., :-1], data.tokens[..., 1:] != plain.PAD
    hidden = model.decode_words(inputs, real, model.encode(data.features, data.mask))
    ours = torch.nn.functional.cross_entropy(model.logits(hidden), data.tokens[..., 1:][real])
    theirs = plain.cross_entropy(slow, data.features, data.mask, data.tokens)
    return f"losses without dropout differ by {abs(ours - theirs).item():.1e}"
