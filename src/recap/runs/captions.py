"""Captions as token ids, by image, of a training subset or of a whole split; and as a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from recap.core.errors import DataError
from recap.data.corpus.corpus import Corpus
from recap.data.vocabulary.words import BOS, EOS, PAD, AnyVocabulary


def training_captions(corpus: Corpus, vocabulary: AnyVocabulary, subset: dict[str, Any]) -> dict[int, list[list[int]]]:
    """Return the subset's captions as token ids, by image."""
    return _by_image(corpus, vocabulary, subset["caption_ids"])


def split_captions(corpus: Corpus, vocabulary: AnyVocabulary, split: str) -> dict[int, list[list[int]]]:
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
    most = max(len(rows) for rows in captions)
    longest = max((len(row) for rows in captions for row in rows), default=0)
    tokens = torch.full((len(captions), most, longest + 2), PAD, dtype=torch.long)
    for image, rows in enumerate(captions):
        for index, row in enumerate(rows):
            tokens[image, index, : len(row) + 2] = torch.tensor([BOS, *row, EOS])
    return tokens


def _by_image(corpus: Corpus, vocabulary: AnyVocabulary, ids: Sequence[int]) -> dict[int, list[list[int]]]:
    captions: dict[int, list[list[int]]] = {}
    for image, tokens in zip(corpus.image_ids_of(ids), corpus.token_lists(ids), strict=True):
        captions.setdefault(image, []).append(vocabulary.encode(tokens))
    return captions
