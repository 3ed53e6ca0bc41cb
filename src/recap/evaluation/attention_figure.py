"""The figure of the attention maps of several trained models on the same test images."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from recap.core.errors import FeatureError
from recap.data.corpus import Corpus
from recap.data.vocabulary import BOS
from recap.evaluation.captioned import caption_images
from recap.evaluation.figure import DrawnModels, shown_images
from recap.features.store import FeatureStore
from recap.models.attention_maps import attention_maps
from recap.reporting.attention import AttentionMap, Box, grid_boxes, write_attention
from recap.runs.inputs import BOXES
from recap.settings.figures import AttentionFigure

_SHADING = (
    "Attention of the first seed; brightness relative to the cell with the largest weight per word, which is outlined "
    "in red."
)


def draw_attention(figure: AttentionFigure, models: DrawnModels, files: Mapping[str, Path]) -> None:
    """Caption images with each model and draw the attention map of every token."""
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
        boxes = vector_boxes(found.sources.stores[0], image)
        tokens = torch.tensor([[[BOS, *found.captions[image]]]])
        maps = attention_maps(found.model, tokens, found.model.encode(images))[0, 0]  # [T, N]
        words = found.words(image)
        weights = maps[: len(words), mask[0]].tolist()
        figures[image] = AttentionMap(label, words, boxes, weights)
    return figures


def vector_boxes(store: FeatureStore, image: int) -> list[Box]:
    """Return where the vectors of an image are, as fractions of it: their boxes, or else the cells of a square grid."""
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
