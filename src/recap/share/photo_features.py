"""The features of photos as a trained model reads them, made by the very code that made those of its data set."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import torch

from recap.core.errors import FeatureError
from recap.data.vocabulary import AnyVocabulary
from recap.features.attributes import CHANNEL_SCALE
from recap.features.extraction import Encoder, make_encoder
from recap.features.grid import Backbone, ChannelScale
from recap.features.records import stored_arrays
from recap.models.base import Captioner, streams_with_boxes
from recap.models.images import Images, InputSpec, Stream
from recap.runs.inputs import BOXES
from recap.share.run_files import Extractor

if TYPE_CHECKING:
    from PIL.Image import Image

# What a photo's encoder may say otherwise: where its weights lie (their hash is compared), and what a GPU rounds.
_MAY_DIFFER = {"weights", "precision"}


class PhotoFeatures:
    """Makes the features that a model was trained on, rounded as they were stored; `inputs` is what it is told."""

    def __init__(self, extractors: Sequence[Extractor], vocabulary: AnyVocabulary, device: torch.device) -> None:
        self._extractors = extractors
        self._encoders = [photo_encoder(extractor, device) for extractor in extractors]
        sizes = {name: size for extractor in extractors for name, size in extractor.sizes.items()}
        self.inputs = InputSpec(sizes, len(vocabulary), vocabulary)

    def read(self, photos: Sequence[Sequence[Image]], model: Captioner, *, with_boxes: bool = False) -> Images:
        """Return the features of photos, each given as its views in RGB, that a model reads.

        `with_boxes`: with boxes where there are any, also if the model reads none.
        """
        stored: list[dict[str, np.ndarray]] = [{} for _ in photos]
        sizes = np.zeros((len(photos), 2), np.int32)
        for extractor, encoder in zip(self._extractors, self._encoders, strict=True):
            items = (encoder.prepare(number, views) for number, views in enumerate(photos))
            for record in chain.from_iterable(map(encoder, encoder.batches(items))):
                stored[record.image_id] |= stored_arrays(
                    record, dtype=extractor.settings.dtype, streams=list(extractor.sizes)
                )
                sizes[record.image_id] = record.size
        wanted = [name for name in self.inputs.sizes if name in model.reads(self.inputs)]
        boxes: Collection[str] = streams_with_boxes(model, self.inputs)
        if with_boxes:
            boxes = [name for name in wanted if all(f"{name}/{BOXES}" in arrays for arrays in stored)]
        return Images({name: _stream(name, stored, sizes if name in boxes else None) for name in wanted})


def photo_encoder(extractor: Extractor, device: torch.device) -> Encoder:
    """Return what makes a store's features for photos, once it is known to be what made the store's."""
    settings = extractor.settings
    if settings.encoder is None:
        raise FeatureError(
            f"{extractor.store}: features of kind {settings.kind!r} cannot be made for a photo: {settings.no_encoder}"
        )
    encoder = make_encoder(settings, weights=extractor.weights, device=device)
    if isinstance(encoder, Backbone) and encoder.spec.standardises():
        encoder.scale = _channel_scale(extractor)
    digest = encoder.attributes["weights_sha256"]
    if digest != extractor.weights_sha256:
        raise FeatureError(
            f"{extractor.weights or settings.kind}: not the weights that {extractor.store} was made with (sha256 "
            f"{digest}, expected {extractor.weights_sha256}); give those with --weights FILE"
        )
    described = json.loads(encoder.attributes["extractor"])
    for key in sorted({*described, *extractor.described} - _MAY_DIFFER):
        if described.get(key) != extractor.described.get(key):
            raise FeatureError(
                f"{extractor.store}: was made with {key} {extractor.described.get(key)!r}, and a photo would be with "
                f"{described.get(key)!r}; install the versions that it was made with, or make features and run again"
            )
    return encoder


def _channel_scale(extractor: Extractor) -> ChannelScale:
    """Return the scale of the training pictures, as the store has it."""
    if extractor.channel_scale is None:
        raise FeatureError(
            f"{extractor.store}: does not say by what its channels were standardized, which a photo's have to be "
            "as well: it was made by an earlier version; make features and run again"
        )
    try:
        return ChannelScale.of_text(extractor.channel_scale)
    except ValueError as error:
        raise FeatureError(f"{extractor.store}: {CHANNEL_SCALE}: {error}; make the features again") from error


def _stream(name: str, stored: Sequence[Mapping[str, np.ndarray]], sizes: np.ndarray | None) -> Stream:
    """Return one stream of a batch, zero beyond each photo's own vectors; ``sizes`` [B, 2] ask for boxes, too."""
    values, mask = _padded([arrays[f"{name}/values"] for arrays in stored])
    if sizes is None:
        return Stream(values, mask)
    boxes, _ = _padded([arrays[f"{name}/{BOXES}"] for arrays in stored])
    return Stream(values, mask, boxes, torch.from_numpy(sizes).float())


def _padded(arrays: Sequence[np.ndarray]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return arrays [N, F] as float32 [B, most N, F], zero where the mask [B, most N] is False."""
    tensors = [torch.from_numpy(array.astype(np.float32)) for array in arrays]
    mask = [torch.ones(len(tensor), dtype=torch.bool) for tensor in tensors]
    pad = torch.nn.utils.rnn.pad_sequence
    return pad(tensors, batch_first=True), pad(mask, batch_first=True)
