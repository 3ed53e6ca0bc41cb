"""What models read: features of images, captions as token ids, pretrained weights."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
from torch import Tensor

from recap.core.errors import ConfigError, DataError, FeatureError, first_line
from recap.core.hashing import value_hash
from recap.core.log import log
from recap.data.corpus import Corpus
from recap.data.vocabulary import (
    BOS,
    EOS,
    PAD,
    AnyVocabulary,
    CaptionIds,
    Vocabulary,
    padded,
    ranges,
)
from recap.features.store import FeatureStore
from recap.models.base import Captioner
from recap.models.images import Images, InputSpec, Stream
from recap.plan.row_checks import too_many_vectors
from recap.settings import ModelConfig
from recap.settings.base import HUB

if TYPE_CHECKING:
    import pyarrow as pa

BOXES = "boxes"
WEIGHTS = "model.safetensors"  # the file of a model on the hub


class ReadsImages(Protocol):
    """What training and decoding ask for features."""

    def read(self, image_ids: Sequence[int]) -> Images:
        """Return images in the order given."""


class FeatureSources:
    """The streams of stores of the same images, sizes F by name, a hash of what made them."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.stores = [FeatureStore(path) for path in paths]
        self._store_of: dict[str, FeatureStore] = {}
        for store in self.stores:
            for stream in [store.stream, *store.streams]:
                if self._store_of.setdefault(stream, store) is not store:
                    both = f"{store.path} and {self._store_of[stream].path}"
                    raise FeatureError(
                        f"{both} have a stream {stream!r}; take features with other names of "
                        "streams"
                    )
        self.sizes: Mapping[str, int] = {
            name: store.shape(name)[1] for name, store in self._store_of.items()
        }
        self.extractor_hash = joint_extractor_hash(self.stores)
        self._streams: Sequence[str] = [self.stores[0].stream]
        self._boxes: set[str] = set()

    def input_spec(self, vocabulary: AnyVocabulary) -> InputSpec:
        """Return what a model is told before it is built."""
        return InputSpec(self.sizes, len(vocabulary), vocabulary)

    def choose(self, models: Sequence[Captioner], inputs: InputSpec) -> None:
        """Read from now on the streams that any of these models,
        built with `inputs`, reads, with boxes if it does."""
        wanted: set[str] = set()
        self._boxes = set()
        for model in models:
            wanted.update(model.reads(inputs))
            self._boxes.update(model.reads_boxes)
        self._streams = [name for name in self.sizes if name in wanted]
        for store in self.stores:
            if not wanted & set(store.streams):
                read = ", ".join(self._streams)
                raise ConfigError(
                    f"{store.path}: the model reads only {read}; leave it out, or take another "
                    "model"
                )

    def require(self, image_ids: Sequence[int]) -> None:
        """Check that all of these images have features."""
        for store in self.stores:
            store.require(image_ids)

    def hash_of(self, image_ids: Sequence[int]) -> str:
        """Return a hash of what made the features and of those of these images.

        Others in the stores do not count.
        """
        wanted = np.unique(np.array(image_ids, np.int64)).tolist()
        digests = [store.digests[store.positions(wanted)] for store in self.stores]
        return value_hash(
            [
                self.extractor_hash,
                wanted,
                [hashlib.sha256(each.tobytes()).hexdigest() for each in digests],
            ]
        )

    def read(self, image_ids: Sequence[int], *, with_boxes: bool = False) -> Images:
        """Return images as ordered (ids may repeat), with boxes also where no model reads them."""
        streams = {}
        for name in self._streams:
            store = self._store_of[name]
            streams[name] = Stream(*store.read(image_ids, name))
            if name in self._boxes or (with_boxes and BOXES in store.columns(name)):
                boxes = store.column(image_ids, BOXES, name)
                sizes = torch.from_numpy(store.sizes(image_ids))
                streams[name] = replace(streams[name], boxes=boxes.float(), sizes=sizes.float())
        return Images(streams)


def joint_extractor_hash(stores: Sequence[FeatureStore]) -> str:
    """Return a hash of what made several stores, whichever images they hold."""
    makers = [store.extractor_hash() for store in stores]
    return makers[0] if len(makers) == 1 else value_hash(makers)


def check_vectors(model: ModelConfig, store: Path) -> None:
    """Compare a model's `max_vectors` with the main stream of its store."""
    # Where all images have the same number,
    # every one would lose the same part, such as a view: that is refused.
    limit = model.vector_limit
    if limit is None:
        return
    features = FeatureStore(store)
    vectors = features.rows(features.ids.tolist())
    most = int(vectors.max())
    above = int((vectors > limit).sum())
    if above and int(vectors.min()) == most:
        raise ConfigError(f"{store}: {too_many_vectors(most, limit)}")
    if above:
        log.info(
            f"{store}: {above:,} of {len(vectors):,} images have more than {limit} vectors (up to "
            f"{most}); the model reads the first {limit}, as its max_vectors says"
        )


def split_captions(
    corpus: Corpus, vocabulary: AnyVocabulary, split: str, caption_ids: Sequence[int] | None = None
) -> CaptionIds:
    """Return captions of a split, or of a training subset of it, as token ids by image."""
    rows = corpus.rows(split)
    own = corpus.caption_id[rows]
    wanted, order = np.unique(own if caption_ids is None else caption_ids, return_inverse=True)
    places = np.minimum(np.searchsorted(own, wanted), len(own) - 1)
    unknown = wanted[own[places] != wanted]
    if len(unknown):
        raise DataError(
            f"{corpus.path}: no caption id {unknown[0]} in {split!r}; make the subset again from it"
        )
    pieces = [
        _encoded(words, vocabulary) for words in corpus.column("tokens", split).take(places).chunks
    ]
    lengths = np.concatenate([own for own, _ in pieces])
    tokens = np.concatenate([ids for _, ids in pieces])
    return CaptionIds.by_image(corpus.image_id[rows[places]], lengths, tokens, order)


def _encoded(captions: pa.ListArray, vocabulary: AnyVocabulary) -> tuple[np.ndarray, np.ndarray]:
    """Return how many ids each caption has, int64 [R], and the ids of all, int32 [N]."""
    if not isinstance(vocabulary, Vocabulary):
        pieces = [vocabulary.encode(words) for words in captions.to_pylist()]
        return np.array(list(map(len, pieces)), np.int64), np.array(
            list(chain.from_iterable(pieces)), np.int32
        )
    lengths = np.diff(captions.offsets.to_numpy()).astype(np.int64)
    # a word has the same id in any caption: each is looked up once
    words = captions.flatten().dictionary_encode()
    ids = np.array(
        [vocabulary.encode([word])[0] for word in words.dictionary.to_pylist()], np.int32
    )
    # within its caption
    place = np.arange(len(words)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return np.minimum(lengths, vocabulary.max_length), ids[
        words.indices.to_numpy()[place < vocabulary.max_length]
    ]


def caption_tensor(captions: Sequence[Sequence[Sequence[int]]]) -> Tensor:
    """Token ids of each image's captions -> [B, C, T + 1] with <bos>, <eos> and padding."""
    return batch_tensor(CaptionIds.of(dict(enumerate(captions))), range(len(captions)))


def batch_tensor(captions: CaptionIds, image_ids: Sequence[int]) -> Tensor:
    """Token ids of the captions of B images -> [B, C, T + 1] with <bos>, <eos> and padding."""
    places = captions.places(image_ids)
    first, last = captions.first[places], captions.first[places + 1]
    lengths, tokens = captions.flat(ranges(first, last))
    longest = int(lengths.max(initial=0))
    counts = last - first
    rows = np.full((len(lengths), longest + 2), PAD, np.int64)
    rows[:, 0] = BOS
    rows[:, 1:-1] = padded(lengths, tokens, longest=longest)
    rows[np.arange(len(lengths)), lengths + 1] = EOS
    batch = np.full((len(places), int(counts.max()), longest + 2), PAD, np.int64)
    batch[np.arange(batch.shape[1]) < counts[:, None]] = rows
    return torch.from_numpy(batch)


def pretrained_file(source: str | None, file: Path | None) -> Path | None:
    """Return the file of the weights that a model's settings name, `source`.

    `file` is that of the command line.
    """
    if source is None and file is not None:
        raise ConfigError(
            f"--weights {file}: the model's settings name no weights; set its `weights`, or leave "
            "it out"
        )
    if source is None or file is not None:
        return file
    if not source.startswith(HUB):
        raise ConfigError(
            f"the model begins with the weights {source!r}; name their file with --weights"
        )
    return hub_file(source, WEIGHTS)


def hub_file(source: str, name: str) -> Path:
    """Return a file of ``hub:OWNER/NAME@REVISION`` in the hub's cache.

    By its revision, a model stays what it is.
    """
    match = re.fullmatch(HUB + r"(\w[\w.-]*(?:/\w[\w.-]*)?)@([0-9a-f]{40})", source)
    if match is None:
        raise ConfigError(
            f"{source!r}: write {HUB}OWNER/NAME@REVISION with the 40 digits of a commit of the hub"
        )
    from huggingface_hub import hf_hub_download

    try:
        return Path(hf_hub_download(match[1], name, revision=match[2]))
    except Exception as error:  # the library raises a dozen kinds, its own and of its transports
        remedy = (
            "without a network, copy the files and name their path: of a model's `weights`, below "
            "`inputs`"
        )
        raise ConfigError(
            f"{source}: {name} cannot be fetched ({first_line(error)}); {remedy}"
        ) from error
