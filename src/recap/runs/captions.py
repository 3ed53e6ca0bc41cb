"""Captions as token ids, by image, of a training subset or of a whole split; and as a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from recap.core.errors import DataError
from recap.data.caption_ids import CaptionIds, padded, ranges
from recap.data.corpus.corpus import Corpus
from recap.data.vocabulary.words import BOS, EOS, PAD, AnyVocabulary


def training_captions(corpus: Corpus, vocabulary: AnyVocabulary, subset: dict[str, Any]) -> CaptionIds:
    """Return the subset's captions as token ids, by image."""
    return _by_image(corpus, vocabulary, subset["caption_ids"])


def split_captions(corpus: Corpus, vocabulary: AnyVocabulary, split: str) -> CaptionIds:
    """Return all captions of a split as word ids, by image.

    Raises:
        DataError: the split has no images.
    """
    ids = corpus.caption_ids(split)
    if not ids:
        raise DataError(f"{corpus.dataset}: the split {split!r} has no images")
    return _by_image(corpus, vocabulary, ids)


def caption_tensor(captions: Sequence[Sequence[Sequence[int]]]) -> Tensor:
    """Token ids of each image's captions -> [B, C, T + 1] with <bos>, <eos> and padding."""
    return batch_tensor(CaptionIds.of(dict(enumerate(captions))), range(len(captions)))


def batch_tensor(captions: CaptionIds, image_ids: Sequence[int]) -> Tensor:
    """Token ids of the captions of B images -> [B, C, T + 1] with <bos>, <eos> and padding.

    Raises:
        KeyError: an image has no captions.
    """
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


def _by_image(corpus: Corpus, vocabulary: AnyVocabulary, ids: Sequence[int]) -> CaptionIds:
    rows, order = np.unique(corpus.rows_of(ids), return_inverse=True)
    pieces = [vocabulary.encode_all(words) for words in corpus.chunks("tokens", rows)]
    lengths, tokens = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    return CaptionIds.by_image(corpus.image_id[rows], lengths, tokens, order)
