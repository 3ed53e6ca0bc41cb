"""AoANet at COCO's sizes: cross-entropy step."""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks import plain_aoanet
from benchmarks.figures import Case
from benchmarks.plain import repeated, torch_dropout
from benchmarks.plain_decoding import padded_loss
from benchmarks.shapes import CAPTIONS, FEATURES, WORDS, batch, vectors
from benchmarks.x_linear import learner, without_dropout
from recap.core.config import CrossEntropy
from recap.models.aoanet import AoANet
from recap.models.images import InputSpec
from recap.models.registry import build_model
from recap.training.objectives.cross_entropy import CrossEntropyObjective
from recap.training.optim import build_optimizer

SHAPES = f"six refiner layers of 1,024, 10 images x {CAPTIONS}, 50 regions of {FEATURES}, {WORDS} words"
XE = CrossEntropy(epochs=1, learning_rate=1e-5, betas=(0.9, 0.999), epsilon=1e-8, label_smoothing=0.2, clip_value=0.1)


def model_of() -> AoANet:
    """Return the released sizes, which are the defaults, with the same random weights at each call."""
    torch.manual_seed(0)
    model = build_model({"kind": "aoanet"}, InputSpec.of(FEATURES, WORDS))
    assert isinstance(model, AoANet)
    return model


def plain_loss(model: AoANet) -> Tensor:
    """Loss of all captions, padded, each with its own copy of the image."""
    data = batch()
    rows = data.tokens.flatten(0, 1)
    features, mask = repeated(*vectors(data), CAPTIONS)
    refined = plain_aoanet.encode(model, features, mask)
    return padded_loss(plain_aoanet.scores(model, rows[:, :-1], refined, mask), rows, XE.label_smoothing)


def xe() -> Case:
    """Forward, backward, clipping and Adam of 50 captions of 7 to 16 words, with dropout."""
    model, slow = model_of(), model_of()
    data, objective = batch(), CrossEntropyObjective(model, XE)
    with torch.no_grad():
        exact = CrossEntropyObjective(without_dropout(model_of()), XE)(data).loss
        difference = abs(exact - plain_loss(slow.eval())).item()
    ours = learner(model, build_optimizer(model.parameters(), XE), XE, lambda: objective(data).loss)
    adam = torch.optim.Adam(torch_dropout(slow).parameters(), lr=1e-5, betas=XE.betas, eps=XE.epsilon)
    reference = learner(slow, adam, XE, lambda: plain_loss(slow.train()))
    return Case("xe.aoanet", SHAPES, ours, reference, f"losses without dropout differ by {difference:.1e}")
