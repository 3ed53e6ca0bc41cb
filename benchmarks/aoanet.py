"""AoANet at COCO's sizes: cross-entropy step."""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks import plain_aoanet
from benchmarks.figures import Case
from benchmarks.plain import repeated
from benchmarks.plain_decoding import padded_loss
from benchmarks.shapes import CAPTIONS, FEATURES, WORDS, batch, vectors
from benchmarks.step import cross_entropy
from recap.models.images import InputSpec
from recap.models.registry import build_model
from recap.papers.aoanet.model import AoANet
from recap.settings import CrossEntropy

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
    """A cross-entropy step."""
    return cross_entropy("xe.aoanet", SHAPES, XE, model_of, plain_loss)
