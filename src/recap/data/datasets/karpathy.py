"""Reads captions in the form of Karpathy's JSON files: Flickr8k, Flickr30k and whatever is written alike."""

from __future__ import annotations

from pathlib import Path

from recap.core.hashing import sha256_file
from recap.data.datasets.base import Built, check_pictures, read_karpathy
from recap.data.files.images import ImageSource
from recap.settings.datasets import KarpathyDataset


def build(spec: KarpathyDataset, *, inputs: Path, out: Path, name: str) -> Built:
    """Read a data set as its settings say; arguments and errors as :class:`recap.data.datasets.base.Reader`."""
    annotations = inputs / spec.annotations
    captions = read_karpathy(annotations, merge_restval=spec.merge_restval, member=spec.member)
    source = ImageSource([inputs / images for images in spec.images])
    check_pictures({row.file: row.image_id for row in captions}, source, annotations)
    return Built(captions.by_id(), sha256_file(annotations))
