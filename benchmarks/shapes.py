"""The sizes that all figures of training and decoding share:
10 COCO images of 50 regions, five captions each."""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import Tensor

from benchmarks.plain import plainly
from helpers.model_cases import build_model
from recap.models.base import Captioner
from recap.models.images import Images, InputSpec
from recap.runs.inputs import caption_tensor
from recap.training.batches import Batch

IMAGES, REGIONS, CAPTIONS, FEATURES, WORDS, LENGTH = 10, 50, 5, 2048, 9488, 20


def models(kind: str, words: int = WORDS) -> tuple[Captioner, Captioner]:
    """Return a model of the papers' size with random weights,
    and a plain one with the same weights."""
    torch.manual_seed(0)
    config = {"kind": kind, "dropout": 0.1, "feature_dropout": 0.5}
    model = build_model(config, InputSpec({"main": FEATURES}, words))
    return model, plainly(copy.deepcopy(model))


def captions(seed: int = 0, images: int = IMAGES, most: int = 16) -> dict[int, list[list[int]]]:
    """Return captions whose lengths are spread as those of COCO (10.5 words, 7 to `most`)."""
    rng = np.random.default_rng(seed)

    def one() -> list[int]:
        length = int(np.clip(np.round(rng.normal(10.5, 2.3)), 7, most))
        return (3 + rng.zipf(1.3, size=length).clip(max=WORDS - 4)).tolist()

    return {image: [one() for _ in range(CAPTIONS)] for image in range(images)}


def vectors(data: Batch) -> tuple[Tensor, Tensor]:
    """Return the features [B, N, F] of a batch and their mask [B, N]."""
    return data.images.main.values, data.images.main.mask


def batch(images: int = IMAGES) -> Batch:
    """Return random features and captions of some images."""
    generator = torch.Generator().manual_seed(1)
    features = torch.randn(images, REGIONS, FEATURES, generator=generator)
    words = captions(images=images)
    mask = torch.ones(images, REGIONS, dtype=torch.bool)
    return Batch.of(
        list(range(images)),
        Images.of(features, mask),
        caption_tensor([words[i] for i in range(images)]),
    )
