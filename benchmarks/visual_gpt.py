"""VisualGPT at the paper's width: a cross-entropy step, and beam search."""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks import plain_decoding, plain_visual_gpt
from benchmarks.beam import search
from benchmarks.figures import Case
from benchmarks.plain import repeated
from benchmarks.plain_decoding import padded_loss
from benchmarks.shapes import CAPTIONS, FEATURES, LENGTH, WORDS, batch, vectors
from benchmarks.step import cross_entropy, floor
from helpers.model_cases import build_model
from recap.models.images import InputSpec
from recap.papers.visualgpt.model import VisualGpt
from recap.settings import CrossEntropy

# of the decoder's twelve: two models of 182 M parameters and their moments do not fit everywhere
LAYERS = 3
SHAPES = (
    f"3+{LAYERS} layers of 768, 10 images x {CAPTIONS}, 50 regions of {FEATURES}, {WORDS} words"
)
XE = CrossEntropy(
    epochs=1,
    learning_rate=1e-6,
    optimizer="adamw",
    betas=(0.9, 0.999),
    epsilon=1e-6,
    clip_norm=1.0,
    clip_value=None,
)


def model_of(layers: int = LAYERS) -> VisualGpt:
    """Return a model with the same random weights at each call."""
    torch.manual_seed(0)
    config = {
        "kind": "visual_gpt",
        "decoder_layers": layers,
        "pretrained": False,
        "copy_layers": False,
    }
    model = build_model(config, InputSpec({"main": FEATURES}, WORDS))
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
    """A cross-entropy step."""
    return cross_entropy("xe.visualgpt", SHAPES, XE, model_of, plain_loss)


def beam(images: int = 2, layers: int = 12) -> Case:
    """Beam search of width 5, with the paper's twelve layers."""
    model, slow = model_of(layers).eval(), model_of(layers).eval()
    data, ours = batch(images), search(model, images=images)

    @torch.no_grad()
    def reference() -> Tensor:
        start = plain_visual_gpt.start(slow, *vectors(data))
        return plain_decoding.beam_search(plain_visual_gpt.step, slow, start, 5, LENGTH)

    same = (ours() == reference()).float().mean().item()
    shapes = (
        f"3+{layers} layers of 768, {images} images x 50 regions, beam 5, {LENGTH} words of {WORDS}"
    )
    agreement = f"{100 * same:.1f} % of the words equal"
    return Case("beam.visualgpt", shapes, ours, reference, agreement, lambda: floor(ours))
