"""VisualGPT at the paper's width: a cross-entropy step."""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks import plain_visual_gpt
from benchmarks.figures import Case, product_rate
from benchmarks.plain import repeated, torch_dropout
from benchmarks.plain_decoding import padded_loss
from benchmarks.shapes import CAPTIONS, FEATURES, WORDS, batch, vectors
from benchmarks.x_linear import learner, without_dropout
from recap.core.config import CrossEntropy
from recap.models.images import InputSpec
from recap.models.registry import build_model
from recap.models.visual_gpt import VisualGpt
from recap.training.objectives.cross_entropy import CrossEntropyObjective
from recap.training.optim import build_optimizer

LAYERS = 3  # of the decoder's twelve: two models of 182 M parameters and their moments do not fit everywhere
SHAPES = f"3+{LAYERS} layers of 768, 10 images x {CAPTIONS}, 50 regions of {FEATURES}, {WORDS} words"
XE = CrossEntropy(
    epochs=1,
    learning_rate=1e-6,
    optimizer="adamw",
    betas=(0.9, 0.999),
    epsilon=1e-6,
    clip_norm=1.0,
    clip_value=None,
)


def model_of() -> VisualGpt:
    """Return a model with the same random weights at each call."""
    torch.manual_seed(0)
    config = {"kind": "visual_gpt", "decoder_layers": LAYERS, "pretrained": False, "copy_layers": False}
    model = build_model(config, InputSpec.of(FEATURES, WORDS))
    assert isinstance(model, VisualGpt)
    return model


def plain_loss(model: VisualGpt) -> Tensor:
    """Loss of all captions, padded, each with its own copy of the image."""
    data = batch()
    rows = data.tokens.flatten(0, 1)
    features, mask = repeated(*vectors(data), CAPTIONS)
    levels = plain_visual_gpt.encode(model, features, mask)
    return padded_loss(plain_visual_gpt.scores(model, rows[:, :-1], levels, mask), rows)


def xe() -> Case:
    """Forward, backward and AdamW of 50 captions of 7 to 16 words, with dropout."""
    model, slow = model_of(), model_of()
    data, objective = batch(), CrossEntropyObjective(model, XE)
    with torch.no_grad():
        exact = CrossEntropyObjective(without_dropout(model_of()), XE)(data).loss
        difference = abs(exact - plain_loss(slow.eval())).item()
    step = learner(model, build_optimizer(model.parameters(), XE), XE, lambda: objective(data).loss)

    def floor() -> dict[str, object]:
        from torch.utils.flop_counter import FlopCounterMode

        with FlopCounterMode(display=False) as counter:
            step()
        flops, rate = counter.get_total_flops(), product_rate()
        return {"gflop": round(flops / 1e9), "gflop_per_s": round(rate / 1e9), "floor_seconds": round(flops / rate, 3)}

    plain = torch.optim.AdamW(
        torch_dropout(slow).parameters(), lr=XE.schedule.learning_rate, betas=XE.betas, eps=XE.epsilon, weight_decay=0.0
    )
    reference = learner(slow, plain, XE, lambda: plain_loss(slow.train()))
    return Case("xe.visualgpt", SHAPES, step, reference, f"losses without dropout differ by {difference:.1e}", floor)
