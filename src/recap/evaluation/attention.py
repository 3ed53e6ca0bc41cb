"""Captions of chosen images with the attention weights of every word, from trained models."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import torch

from recap.core.errors import FeatureError
from recap.data.vocabulary.words import BOS
from recap.evaluation.captioned import caption_images
from recap.features.store import FeatureStore
from recap.models.attention_maps import attention_maps
from recap.reporting.attention import AttentionMap, Box, grid_boxes
from recap.runs.inputs import BOXES


def caption_with_attention(
    *,
    run: Path,
    label: str,
    features: Sequence[Path],
    vocabulary: Path,
    image_ids: Sequence[int],
    beam: int,
) -> dict[int, AttentionMap]:
    """Return a trained model's captions of images with their attention over the image, on the CPU.

    Args:
        run: the run folder.
        label: of the model in the figure.
        features: the feature stores that training saw; the main stream holds regions with boxes, or square grids.
        vocabulary: the vocabulary of the training.
        image_ids: images to caption.
        beam: of the search.

    Raises:
        RecapError: a file does not fit, nothing says where the vectors are, or the model exposes no attention.
    """
    found = caption_images(
        run=run, features=features, vocabulary=vocabulary, image_ids=image_ids, beam=beam, name=label
    )
    figures = {}
    for image in image_ids:
        images = found.sources.read([image])
        mask = images.main.mask
        boxes = vector_boxes(found.sources.stores[0], image)
        tokens = torch.tensor([[[BOS, *found.captions[image]]]])
        maps = attention_maps(found.model, tokens, found.model.encode(images))[0, 0]  # [T, N]
        words = found.words(image)
        weights = maps[: len(words), mask[0]].tolist()
        figures[image] = AttentionMap(label, words, boxes, weights)
    return figures


def vector_boxes(store: FeatureStore, image: int) -> list[Box]:
    """Return where the vectors of an image are, as fractions of it: their boxes, or else the cells of a square grid.

    Raises:
        FeatureError: the store has neither.
    """
    if BOXES in store.columns():
        size = torch.from_numpy(store.sizes([image])[0]).float()
        if not size.all():
            raise FeatureError(f"{store.path}: image {image} has boxes, but no size of the picture to draw them in")
        scaled = (store.column([image], BOXES)[0].float() / size.repeat(2)).clamp(0, 1)
        return [(left, top, right, bottom) for left, top, right, bottom in scaled.tolist()]
    vectors = int(store.rows([image])[0])
    side = math.isqrt(vectors)
    if side * side != vectors:
        raise FeatureError(f"{store.path}: image {image} has {vectors} vectors without boxes, no square grid to draw")
    return grid_boxes(side)
