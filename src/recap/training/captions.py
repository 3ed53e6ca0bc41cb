"""Captions as token ids, by image: those of a training subset, or of a whole split."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from recap.core.errors import DataError
from recap.data.corpus.corpus import Corpus
from recap.data.vocabulary.words import AnyVocabulary


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
        raise DataError(f"{corpus.dataset}: the split {split!r} has no images; training needs it to choose its weights")
    return _by_image(corpus, vocabulary, ids)


def _by_image(corpus: Corpus, vocabulary: AnyVocabulary, ids: Sequence[int]) -> dict[int, list[list[int]]]:
    captions: dict[int, list[list[int]]] = {}
    for image, tokens in zip(corpus.image_ids_of(ids), corpus.token_lists(ids), strict=True):
        captions.setdefault(image, []).append(vocabulary.encode(tokens))
    return captions
