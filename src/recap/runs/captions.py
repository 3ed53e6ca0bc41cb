"""Captions as token ids, by image, of a training subset or of a whole split; and as a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from recap.core.errors import DataError
from recap.data.caption_ids import CaptionIds, padded, ranges
from recap.data.corpus import Corpus
from recap.data.vocabulary import BOS, EOS, PAD, AnyVocabulary, Vocabulary

if TYPE_CHECKING:
    import pyarrow as pa


def training_captions(corpus: Corpus, vocabulary: AnyVocabulary, subset: dict[str, Any]) -> CaptionIds:
    """Return the subset's captions as token ids, by image."""
    return _by_image(corpus, vocabulary, "train", subset["caption_ids"])


def split_captions(corpus: Corpus, vocabulary: AnyVocabulary, split: str) -> CaptionIds:
    """Return all captions of a split as word ids, by image."""
    return _by_image(corpus, vocabulary, split)


def caption_tensor(captions: Sequence[Sequence[Sequence[int]]]) -> Tensor:
    """Token ids of each image's captions -> [B, C, T + 1] with <bos>, <eos> and padding."""
    return batch_tensor(CaptionIds.of(dict(enumerate(captions))), range(len(captions)))


def batch_tensor(captions: CaptionIds, image_ids: Sequence[int]) -> Tensor:
    """Token ids of the captions of B images -> [B, C, T + 1] with <bos>, <eos> and padding."""
    places = captions.places(image_ids)
    first, last = captions.first[places], captions.first[places + 1]
    lengths, tokens = captions.flat(ranges(first, last))
    longest = int(lengths.max(initial=0))
    rows = np.full((len(lengths), longest + 2), PAD, np.int64)
    rows[:, 0] = BOS
    rows[:, 1:-1] = padded(lengths, tokens, longest=longest)
    rows[np.arange(len(lengths)), lengths + 1] = EOS
    counts = last - first
    found = np.full((len(places), int(counts.max()), longest + 2), PAD, np.int64)
    found[np.arange(found.shape[1]) < counts[:, None]] = rows
    return torch.from_numpy(found)


def _by_image(
    corpus: Corpus, vocabulary: AnyVocabulary, split: str, caption_ids: Sequence[int] | None = None
) -> CaptionIds:
    """Return captions of a split, all of them or those of some ids, as token ids by image."""
    rows = corpus.rows(split)
    known = corpus.caption_id[rows]
    wanted, order = np.unique(known if caption_ids is None else caption_ids, return_inverse=True)
    places = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    unknown = wanted[known[places] != wanted]
    if len(unknown):
        raise DataError(
            f"{corpus.path}: no caption id {unknown[0]} in {split!r}; make the subset again from this corpus"
        )
    pieces = [_encoded(words, vocabulary) for words in corpus.column("tokens", split).take(places).chunks]
    lengths, tokens = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    return CaptionIds.by_image(corpus.image_id[rows[places]], lengths, tokens, order)


def _encoded(captions: pa.ListArray, vocabulary: AnyVocabulary) -> tuple[np.ndarray, np.ndarray]:
    """Return how many ids each caption has, int64 [R], and the ids of all, int32 [N]."""
    if not isinstance(vocabulary, Vocabulary):
        found = [vocabulary.encode(words) for words in captions.to_pylist()]
        lengths = np.fromiter(map(len, found), np.int64, len(found))
        return lengths, np.fromiter(chain.from_iterable(found), np.int32, int(lengths.sum()))
    lengths = np.diff(captions.offsets.to_numpy()).astype(np.int64)
    words = captions.flatten().dictionary_encode()  # a word has the same id in any caption: each is looked up once
    ids = np.array(
        list(chain.from_iterable(vocabulary.encode([word]) for word in words.dictionary.to_pylist())), np.int32
    )
    place = np.arange(len(words)) - np.repeat(np.cumsum(lengths) - lengths, lengths)  # within its caption
    kept = words.indices.to_numpy()[place < vocabulary.max_length]
    return np.minimum(lengths, vocabulary.max_length), ids[kept]
