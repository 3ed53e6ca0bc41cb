"""The features of photos as a trained model reads them, made by the very code that made those of its data set."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
import torch

from recap.core.errors import DataError, FeatureError
from recap.core.plugins import resolve
from recap.data.files.images import ImageSource
from recap.data.vocabulary.words import AnyVocabulary
from recap.features.attributes import CHANNEL_SCALE
from recap.features.grid import Backbone, ChannelScale
from recap.features.pictures import decode
from recap.features.records import ImageFeatures, stored_arrays
from recap.models.base import Captioner, streams_with_boxes
from recap.models.images import Images, InputSpec, Stream
from recap.runs.inputs import BOXES
from recap.settings.features import GridFeatures
from recap.share.run_files import Extractor

if TYPE_CHECKING:
    from PIL.Image import Image

# What a photo's encoder may say otherwise: where its weights lie (their hash is compared), and what a GPU rounds.
_MAY_DIFFER = {"weights", "precision"}


class Encoder(Protocol):
    """Makes the features of photos; the config class of a kind of features names a function of the run's extractor and
    a device that returns one.
    """

    attributes: dict[str, str]  #: what a store would say of it, as :func:`recap.features.attributes.describe` has it

    def __call__(self, photos: Sequence[Sequence[Image]]) -> Iterator[ImageFeatures]:
        """Yield the features of photos, each given as its views in RGB; their ids are 0, 1, 2, ..."""


class _PicturesInMemory(ImageSource):
    """Pictures by name, for what reads them out of folders and zips otherwise."""

    def __init__(self, pictures: dict[str, Image]) -> None:
        super().__init__([])
        self._pictures = pictures

    def open_rgb(self, file: str) -> Image:
        return self._pictures[file]


class _Grids:
    """Grids of a timm backbone: the rows of the first view, then those of the next."""

    def __init__(self, backbone: Backbone) -> None:
        self._backbone = backbone
        self.attributes = backbone.attributes()

    def __call__(self, photos: Sequence[Sequence[Image]]) -> Iterator[ImageFeatures]:
        pictures = {str(number): picture for number, picture in enumerate(chain.from_iterable(photos))}
        edge, resample = self._backbone.spec.image_size, self._backbone.resample
        _, squares = decode(_PicturesInMemory(pictures), list(pictures), edge=edge, resample=resample)
        rows = iter(self._backbone(squares).numpy())
        for number, views in enumerate(photos):
            yield ImageFeatures(number, views[0].size, np.concatenate([next(rows) for _ in views]))


class _OneByOne:
    """An extractor of detectron2, which takes one picture at a time."""

    def __init__(self, make: Callable[..., Any], extractor: Extractor, device: torch.device) -> None:
        settings, inputs = extractor.settings, Path()
        if extractor.weights is not None:
            settings = settings.model_copy(update={"weights": extractor.weights.name})
            inputs = extractor.weights.parent
        self._extractor = make(settings, inputs=inputs, device=device)
        self.attributes: dict[str, str] = self._extractor.attributes

    def __call__(self, photos: Sequence[Sequence[Image]]) -> Iterator[ImageFeatures]:
        for number, views in enumerate(photos):
            if len(views) > 1:
                raise DataError(f"{len(views)} views: the run's features are of one picture; give one at a time")
            yield from self._extractor([self._extractor.prepare(number, views[0])])


def grid(extractor: Extractor, *, device: torch.device) -> Encoder:
    """Return what makes grid features; standardized ones on the scale of the training pictures, as the store has it."""
    settings, scale = cast(GridFeatures, extractor.settings), None
    if settings.standardises():
        if extractor.channel_scale is None:
            raise FeatureError(
                f"{extractor.store}: does not say by what its channels were standardized, which a photo's have to be "
                "as well: it was made by an earlier version; make features and run again"
            )
        try:
            scale = ChannelScale.of_text(extractor.channel_scale)
        except ValueError as error:
            raise FeatureError(f"{extractor.store}: {CHANNEL_SCALE}: {error}; make the features again") from error
    backbone = Backbone(settings, weights=extractor.weights, device=device)
    backbone.scale = scale
    return _Grids(backbone)


def detectron(extractor: Extractor, *, device: torch.device) -> Encoder:
    """Return what makes regions or segments."""
    from recap.features.regions import Detector
    from recap.features.segments import Segmenter

    return _OneByOne(Detector if extractor.settings.kind == "regions" else Segmenter, extractor, device)


class PhotoFeatures:
    """Makes the features that a model was trained on, rounded as they were stored; `inputs` is what it is told."""

    def __init__(self, extractors: Sequence[Extractor], vocabulary: AnyVocabulary, device: torch.device) -> None:
        self._extractors = extractors
        self._encoders = [_encoder(extractor, device) for extractor in extractors]
        sizes = {name: size for extractor in extractors for name, size in extractor.sizes.items()}
        self.inputs = InputSpec(sizes, len(vocabulary), vocabulary)

    def read(self, photos: Sequence[Sequence[Image]], model: Captioner, *, with_boxes: bool = False) -> Images:
        """Return the features of photos, each given as its views in RGB, that a model reads.

        `with_boxes`: with boxes where there are any, also if the model reads none.
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


def _encoder(extractor: Extractor, device: torch.device) -> Encoder:
    """Return what makes a store's features for photos, once it is known to be what made the store's."""
    settings = extractor.settings
    if settings.encoder is None:
        raise FeatureError(
            f"{extractor.store}: features of kind {settings.kind!r} cannot be made for a photo: {settings.no_encoder}"
        )
    encoder: Encoder = resolve(settings.encoder)(extractor, device=device)
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
