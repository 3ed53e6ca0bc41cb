"""The features of photos as a trained model reads them."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from recap.captioning.encoders import Encoder
from recap.captioning.extractors import Extractor
from recap.core.errors import FeatureError
from recap.core.plugins import resolve
from recap.data.vocabulary.base import AnyVocabulary
from recap.features.records import stored_arrays
from recap.models.base import Captioner, streams_with_boxes
from recap.models.images import Images, InputSpec, Stream
from recap.runs.inputs import BOXES

if TYPE_CHECKING:
    from PIL.Image import Image

# What a photo's encoder may say otherwise: where its weights lie (their hash is compared), and what a GPU rounds.
_MAY_DIFFER = ("weights", "precision")


class PhotoFeatures:
    """Makes the features that a model was trained on, rounded as they were stored.

    Attributes:
        inputs: what the model is told before it is built.
    """

    def __init__(self, extractors: Sequence[Extractor], vocabulary: AnyVocabulary, device: torch.device) -> None:
        """Build what makes the features.

        Raises:
            RecapError: photos cannot have such features, or what makes them is missing or another one by now.
        """
        self._extractors = extractors
        self._encoders = [_encoder(extractor, device) for extractor in extractors]
        sizes = {name: size for extractor in extractors for name, size in extractor.sizes.items()}
        self.inputs = InputSpec(sizes, len(vocabulary), vocabulary)

    def read(self, photos: Sequence[Sequence[Image]], model: Captioner, *, with_boxes: bool = False) -> Images:
        """Return the features of photos, each given as its views in RGB, that a model reads.

        `with_boxes`: with boxes where there are any, also if the model reads none.

        Raises:
            FeatureError: the features of a photo are not finite; it is called ``image id`` and its place.
        """
        stored: list[dict[str, np.ndarray]] = [{} for _ in photos]
        sizes = np.zeros((len(photos), 2), np.int32)
        for extractor, encode in zip(self._extractors, self._encoders, strict=True):
            for record in encode(photos):
                stored[record.image_id] |= stored_arrays(
                    record, dtype=extractor.settings.dtype, streams=list(extractor.sizes)
                )
                sizes[record.image_id] = record.size
        wanted = [name for name in self.inputs.sizes if name in model.reads(self.inputs)]
        boxes: Collection[str] = streams_with_boxes(model, self.inputs)
        if with_boxes:
            boxes = [name for name in wanted if all(f"{name}/{BOXES}" in arrays for arrays in stored)]
        return Images({name: _stream(name, stored, sizes if name in boxes else None) for name in wanted})


@dataclass(frozen=True)
class MadeImages:
    """Features that are made already, as decoding asks for them."""

    images: Images

    def read(self, image_ids: Sequence[int]) -> Images:
        """Return all of them."""
        assert len(image_ids) == len(self.images)
        return self.images


def _encoder(extractor: Extractor, device: torch.device) -> Encoder:
    """Return what makes a store's features for photos, once it is known to be what made the store's."""
    settings = extractor.settings
    if settings.encoder is None:
        raise FeatureError(
            f"{extractor.store}: features of kind {settings.kind!r} cannot be made for a photo: {settings.no_encoder}"
        )
    encoder: Encoder = resolve(settings.encoder)(extractor, device=device)
    found = encoder.attributes["weights_sha256"]
    if found != extractor.weights_sha256:
        raise FeatureError(
            f"{extractor.weights or settings.kind}: not the weights that {extractor.store} was made with (sha256 "
            f"{found}, expected {extractor.weights_sha256}); give those with --weights FILE"
        )
    said = json.loads(encoder.attributes["extractor"])
    for key in sorted({*said, *extractor.described} - {*_MAY_DIFFER}):
        if said.get(key) != extractor.described.get(key):
            raise FeatureError(
                f"{extractor.store}: was made with {key} {extractor.described.get(key)!r}, and a photo would be with "
                f"{said.get(key)!r}; install the versions that it was made with, or make features and run again"
            )
    return encoder


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
