"""The features that a run is made from: one or several stores of the same images, read as `Images`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import torch

from recap.core.errors import ConfigError, FeatureError
from recap.core.hashing import value_hash
from recap.data.vocabulary import AnyVocabulary
from recap.features.store import FeatureStore
from recap.models.base import Captioner, streams_with_boxes
from recap.models.images import Images, InputSpec, Stream

BOXES = "boxes"


class ReadsImages(Protocol):
    """What training and decoding ask for features."""

    def read(self, image_ids: Sequence[int]) -> Images:
        """Return images in the order given."""


class FeatureSources:
    """The streams of one or several feature stores of the same images.

    What is read is the main stream of the first store, until `choose` says otherwise.

    Attributes:
        stores: each opened, in the order given.
        sizes: F of every stream of all stores, by name; the main stream of the first store comes first.
        made_by: changes when what made any of the stores changes, not when they hold other images.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        """Open the stores."""
        self.stores = [FeatureStore(path) for path in paths]
        self._store_of: dict[str, FeatureStore] = {}
        for store in self.stores:
            for stream in [store.stream, *store.streams]:
                if self._store_of.setdefault(stream, store) is not store:
                    raise FeatureError(
                        f"{store.path}: has a stream {stream!r}, and so has {self._store_of[stream].path}; "
                        "take features whose streams have different names"
                    )
        self.sizes: Mapping[str, int] = {name: store.shape(name)[1] for name, store in self._store_of.items()}
        self.made_by = joint_maker(self.stores)
        self._streams: Sequence[str] = [self.stores[0].stream]
        self._boxes: set[str] = set()

    def input_spec(self, vocabulary: AnyVocabulary) -> InputSpec:
        """Return what a model is told before it is built."""
        return InputSpec(self.sizes, len(vocabulary), vocabulary)

    def choose(self, models: Sequence[Captioner], inputs: InputSpec) -> None:
        """Read from now on the streams that any of these models reads, and boxes where one wants them.

        Args:
            models: each built with `inputs`, which are those of `input_spec`.
            inputs: what the models were told.
        """
        wanted = {name for model in models for name in model.reads(inputs)}
        self._streams = [name for name in self.sizes if name in wanted]
        self._boxes = {name for model in models for name in streams_with_boxes(model, inputs)}
        for store in self.stores:
            if not wanted & set(store.streams):
                raise ConfigError(
                    f"{store.path}: nothing of it is read; the model reads only {', '.join(self._streams)}: "
                    "name one source of features, or a model that reads several"
                )

    def rows(self, image_ids: Sequence[int]) -> dict[str, np.ndarray]:
        """Return how many vectors each image has, int64 [B], of every stream that is read."""
        return {name: self._store_of[name].rows(image_ids, name) for name in self._streams}

    def require(self, image_ids: Iterable[int]) -> None:
        """Check that all of these images have features."""
        wanted = list(image_ids)
        for store in self.stores:
            store.require(wanted)

    def hash_of(self, image_ids: Iterable[int]) -> str:
        """Return a hash of what made the features and of those of these images; others in the stores do not count."""
        wanted = np.unique(np.asarray(list(image_ids), np.int64)).tolist()
        digests = [store.digests[store.positions(wanted)] for store in self.stores]
        return value_hash([self.made_by, wanted, [hashlib.sha256(each.tobytes()).hexdigest() for each in digests]])

    def read(self, image_ids: Sequence[int]) -> Images:
        """Return images in the order given (an id may be repeated); the streams are those of `choose`."""
        return Images({name: self._read(name, image_ids) for name in self._streams})

    def _read(self, name: str, image_ids: Sequence[int]) -> Stream:
        store = self._store_of[name]
        values, mask = store.read(image_ids, name)
        if name not in self._boxes:
            return Stream(values, mask)
        boxes = store.column(image_ids, BOXES, name).float()
        return Stream(values, mask, boxes, torch.from_numpy(store.sizes(image_ids)).float())


def joint_maker(stores: Sequence[FeatureStore]) -> str:
    """Return a hash of what made several stores, whichever images they hold."""
    makers = [store.made_by() for store in stores]
    return makers[0] if len(makers) == 1 else value_hash(makers)
