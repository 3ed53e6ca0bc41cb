"""Which outside files the settings of data sets and features name, relative to the profile's `inputs`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from recap.core.config import BytePairRule, Dataset
from recap.data.datasets.conceptual.reader import survivors_of
from recap.data.vocabulary.bpe import byte_pair_files

# Weights that are no file of the user's.
_WEIGHTS = ("pretrained", "random", "boxes")


def dataset_files(dataset: Dataset) -> list[str]:
    """Return the files and folders that the corpus of a data set is made from: none for the built-in one."""
    if dataset.kind == "scenes":
        return []
    if dataset.kind == "conceptual":
        lists = [survivors_of(Path(dataset.images) / part).as_posix() for part in ("train", "validation")]
        return [dataset.train, dataset.validation, *lists]
    if dataset.kind == "coco":
        return [*dataset.annotations, *filter(None, (dataset.val_list, dataset.test_list)), *dataset.images]
    if dataset.kind == "karpathy":
        return [dataset.annotations, *dataset.images]
    return [*filter(None, (dataset.annotations, dataset.reports, dataset.projections)), *dataset.images]


def tokenizer_files(dataset: Dataset) -> list[str]:
    """Return the files of a data set's byte pairs: none for words and for the hub."""
    words = dataset.vocabulary
    return byte_pair_files(words.tokenizer) if isinstance(words, BytePairRule) else []


def feature_files(features: Any) -> list[str]:
    """Return what features are imported from, or their weights where they are neither random nor from the hub."""
    if features.kind == "imported":
        return list(features.sources)
    return [] if features.weights in _WEIGHTS else [features.weights]
