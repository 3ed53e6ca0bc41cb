"""Photos to features, by the very code that made the features of a data set."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
import torch

from recap.captioning.extractors import Extractor
from recap.captioning.pictures import PicturesInMemory
from recap.core.errors import DataError, FeatureError
from recap.features.attributes import CHANNEL_SCALE
from recap.features.grid import Backbone
from recap.features.maps import ChannelScale
from recap.features.pictures import decode
from recap.features.records import ImageFeatures
from recap.settings.features import GridFeatures

if TYPE_CHECKING:
    from PIL.Image import Image


class Encoder(Protocol):
    """Makes the features of photos; the config class of a kind of features names a function of the run's extractor and
    a device that returns one.

    Attributes:
        attributes: what a store would say of it, as :func:`recap.features.attributes.describe` has it.
    """

    attributes: dict[str, str]

    def __call__(self, photos: Sequence[Sequence[Image]]) -> Iterator[ImageFeatures]:
        """Yield the features of photos, each given as its views in RGB; their ids are 0, 1, 2, ...

        Raises:
            RecapError: this extractor takes one picture at a time, and there are several views.
        """


class _Grids:
    """Grids of a timm backbone: the rows of the first view, then those of the next."""

    def __init__(self, backbone: Backbone) -> None:
        self._backbone = backbone
        self.attributes = backbone.attributes()

    def __call__(self, photos: Sequence[Sequence[Image]]) -> Iterator[ImageFeatures]:
        pictures = {str(number): picture for number, picture in enumerate(chain.from_iterable(photos))}
        edge, resample = self._backbone.spec.image_size, self._backbone.resample
        _, squares = decode(PicturesInMemory(pictures), list(pictures), edge=edge, resample=resample)
        rows = iter(self._backbone(squares).numpy())
        for number, views in enumerate(photos):
            yield ImageFeatures(number, views[0].size, np.concatenate([next(rows) for _ in views]))


class _One:
    """An extractor of detectron2, which takes one picture at a time."""

    def __init__(self, extractor: Any) -> None:
        self._extractor = extractor
        self.attributes: dict[str, str] = extractor.attributes

    def __call__(self, photos: Sequence[Sequence[Image]]) -> Iterator[ImageFeatures]:
        for number, views in enumerate(photos):
            if len(views) > 1:
                raise DataError(f"{len(views)} views: the run's features are of one picture; give one at a time")
            yield from self._extractor([self._extractor.prepare(number, views[0])])


def grid(extractor: Extractor, *, device: torch.device) -> Encoder:
    """Return what makes grid features; standardized ones on the scale of the training pictures, as the store has it.

    Raises:
        RecapError: the weights are missing or do not fit, or the store does not say by what it was standardized.
    """
    settings = cast(GridFeatures, extractor.settings)
    scale = _channel_scale(extractor) if settings.standardises() else None
    backbone = Backbone(settings, weights=extractor.weights, device=device)
    backbone.scale = scale
    return _Grids(backbone)


def _channel_scale(extractor: Extractor) -> ChannelScale:
    if extractor.channel_scale is None:
        raise FeatureError(
            f"{extractor.store}: does not say by what its channels were standardized, which a photo's have to be as "
            "well: it was made by an earlier version; make features and run again"
        )
    try:
        return ChannelScale.of_text(extractor.channel_scale)
    except ValueError as error:
        raise FeatureError(f"{extractor.store}: {CHANNEL_SCALE}: {error}; make the features again") from error


def regions(extractor: Extractor, *, device: torch.device) -> Encoder:
    """Return what makes regions.

    Raises:
        RecapError: detectron2 is absent, or the weights are missing or do not fit.
    """
    from recap.features.regions import Detector

    return _one(Detector, extractor, device)


def segments(extractor: Extractor, *, device: torch.device) -> Encoder:
    """Return what makes segments; errors as for regions."""
    from recap.features.segments import Segmenter

    return _one(Segmenter, extractor, device)


def _one(make: Callable[..., Any], extractor: Extractor, device: torch.device) -> Encoder:
    """Build an extractor whose weights are a file of a folder; without a file its settings are taken as they are."""
    settings, inputs = extractor.settings, Path()
    if extractor.weights is not None:
        settings = settings.model_copy(update={"weights": extractor.weights.name})
        inputs = extractor.weights.parent
    return _One(make(settings, inputs=inputs, device=device))
