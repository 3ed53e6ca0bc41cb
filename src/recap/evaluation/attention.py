"""Captions of chosen images with the attention weights of every word, from trained models."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import torch

from recap.core.errors import FeatureError
from recap.data.vocabulary.words import BOS, load_vocabulary
from recap.evaluation.decode import decode_images
from recap.models.attention_maps import attention_maps
from recap.reporting.attention import AttentionMap, grid_boxes
from recap.runs.inputs import FeatureSources
from recap.runs.saved import load_model


def caption_with_attention(
    *,
    run: Path,
    label: str,
    features: Sequence[Path],
    vocabulary: Path,
    image_ids: Sequence[int],
    beam: int,
    max_length: int,
) -> dict[int, AttentionMap]:
    """Return a trained model's captions of images with their attention over the image, on the CPU.

    Args:
        run: the run folder.
        label: of the model in the figure.
        features: the feature stores that training saw; the main stream holds square grids.
        vocabulary: the vocabulary of the training.
        image_ids: images to caption.
        beam, max_length: of the search.

    Raises:
        RecapError: a file does not fit, the vectors are no square grid, or the model exposes no attention.
    """
    vocab, sources, device = load_vocabulary(vocabulary), FeatureSources(features), torch.device("cpu")
    inputs = sources.input_spec(vocab)
    model = load_model(run, inputs).eval()
    sources.choose([model], inputs)
    limits = {"beam": beam, "max_length": max_length, "length_penalty": 0.0, "batch_size": 50}
    captions = decode_images(model, sources, image_ids, **limits, device=device, name=label)
    figures = {}
    for image in image_ids:
        images = sources.read([image])
        mask = images.main.mask
        side = math.isqrt(int(mask.sum()))
        if side * side != int(mask.sum()):
            raise FeatureError(f"{features[0]}: image {image} has {int(mask.sum())} vectors, no square grid to draw")
        tokens = torch.tensor([[[BOS, *captions[image]]]])
        maps = attention_maps(model, tokens, model.encode(images))[0, 0]  # [T, N]
        words = [vocab.decode([token]) for token in captions[image]]
        weights = maps[: len(words), mask[0]].tolist()
        figures[image] = AttentionMap(label, words, grid_boxes(side), weights)
    return figures
