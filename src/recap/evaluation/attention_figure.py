"""The figure of the attention maps of several trained models on the same test images."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from recap.core.errors import FeatureError
from recap.data.corpus.corpus import Corpus
from recap.data.vocabulary.words import BOS
from recap.evaluation.captioned import caption_images
from recap.evaluation.figure import DrawnModels, shown_images
from recap.models.attention_maps import attention_maps
from recap.reporting.attention import AttentionMap, grid_boxes, write_attention
from recap.settings.model_figures import AttentionFigure

_SHADING = (
    "Attention of the first seed; brightness relative to the cell with the largest weight per word, which is outlined "
    "in red."
)


def draw_attention(figure: AttentionFigure, models: DrawnModels, files: Mapping[str, Path]) -> None:
    """Caption images with each model and draw the attention map of every token.

    Raises:
        RecapError: a file does not fit, the vectors are no square grid, or a model does not expose its attention.
    """
    corpus = Corpus.read(models.corpus)
    images = shown_images(figure, corpus)
    each = [_caption_with_attention(models, label, images, figure.beam) for label in models.runs]
    write_attention(
        heading="  |  ".join(filter(None, [models.heading, _SHADING])),
        maps={image: [model[image] for model in each] for image in images},
        files=corpus.files(),
        image_roots=models.image_roots,
        out=files["attention.png"],
    )


def _caption_with_attention(
    models: DrawnModels, label: str, image_ids: Sequence[int], beam: int
) -> dict[int, AttentionMap]:
    """Return a model's captions of images with their attention over the image."""
    found = caption_images(models, label, image_ids, beam=beam)
    figures = {}
    for image in image_ids:
        images = found.sources.read([image])
        mask = images.main.mask
        side, vectors = math.isqrt(int(mask.sum())), int(mask.sum())
        if side * side != vectors:
            raise FeatureError(f"{models.features[0]}: image {image} has {vectors} vectors, no square grid to draw")
        tokens = torch.tensor([[[BOS, *found.captions[image]]]])
        maps = attention_maps(found.model, tokens, found.model.encode(images))[0, 0]  # [T, N]
        words = found.words(image)
        weights = maps[: len(words), mask[0]].tolist()
        figures[image] = AttentionMap(label, words, grid_boxes(side), weights)
    return figures
