"""Captions of chosen images with the attention weights of every word, from trained models."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import torch

from recap.core.errors import FeatureError
from recap.data.vocabulary.words import BOS
from recap.evaluation.captioned import caption_images
from recap.models.attention_maps import attention_maps
from recap.reporting.attention import AttentionMap, grid_boxes


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
        features: the feature stores that training saw; the main stream holds square grids.
        vocabulary: the vocabulary of the training.
        image_ids: images to caption.
        beam: of the search.

    Raises:
        RecapError: a file does not fit, the vectors are no square grid, or the model exposes no attention.
    """
    found = caption_images(
        run=run, features=features, vocabulary=vocabulary, image_ids=image_ids, beam=beam, name=label
    )
    figures = {}
    for image in image_ids:
        images = found.sources.read([image])
        mask = images.main.mask
        side = math.isqrt(int(mask.sum()))
        if side * side != int(mask.sum()):
            raise FeatureError(f"{features[0]}: image {image} has {int(mask.sum())} vectors, no square grid to draw")
        tokens = torch.tensor([[[BOS, *found.captions[image]]]])
        maps = attention_maps(found.model, tokens, found.model.encode(images))[0, 0]  # [T, N]
        words = found.words(image)
        weights = maps[: len(words), mask[0]].tolist()
        figures[image] = AttentionMap(label, words, grid_boxes(side), weights)
    return figures
