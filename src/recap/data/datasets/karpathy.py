"""Reads captions in the form of Karpathy's JSON files: COCO, Flickr8k, Flickr30k and whatever is written alike."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from recap.core.errors import DataError
from recap.core.hashing import sha256_file
from recap.data.corpus.corpus_file import Caption, Captions, need_splits
from recap.data.datasets.base import Built, Entry, Id, String, Text, check_pictures, parsed
from recap.data.files.images import ImageSource
from recap.data.files.json_files import each_of
from recap.data.vocabulary.text import clean_tokens, tokenize
from recap.settings.datasets import KarpathyDataset


class Sentence(Entry):
    """A caption of an image."""

    sentid: Id
    raw: String
    tokens: list[String] | None = None  # its words; without them, those of `raw`


class KarpathyImage(Entry):
    """An image with its captions; ``cocoid`` is its id where it has one."""

    filename: Text
    filepath: String = ""  # its folder
    split: Literal["train", "val", "test", "restval"]
    sentences: Annotated[list[Sentence], Field(min_length=1)]
    cocoid: Id | None = None
    imgid: Id | None = None


def build(spec: KarpathyDataset, *, inputs: Path, out: Path, name: str) -> Built:
    """Read a data set as its settings say; arguments and errors as :class:`recap.data.datasets.base.Reader`."""
    annotations = inputs / spec.annotations
    captions = read_karpathy(annotations, merge_restval=spec.merge_restval, member=spec.member)
    source = ImageSource([inputs / images for images in spec.images])
    check_pictures({row.file: row.image_id for row in captions}, source, annotations)
    return Built(captions.by_id(), sha256_file(annotations))


def read_karpathy(annotations: Path, *, merge_restval: bool, member: str = "*.json") -> Captions:
    """Read all captions of a Karpathy JSON, or of the one named like ``member`` in a zip.

    ``merge_restval`` counts COCO's ``restval`` images as training images; otherwise they are left out.
    """
    captions = Captions()
    splits: dict[int, str] = {}
    files: dict[str, int] = {}
    owners: dict[int, int] = {}  # caption id -> image id
    for position, value in enumerate(each_of(annotations, member, "images")):
        image = parsed(KarpathyImage, value, f"{annotations}: image number {position}")
        image_id = image.imgid if image.cocoid is None else image.cocoid
        if image_id is None:
            raise DataError(f"{annotations}: image number {position}: has neither 'cocoid' nor 'imgid'; add one")
        if image.split == "restval" and not merge_restval:
            continue
        split = "train" if image.split == "restval" else image.split
        file = "/".join(filter(None, (image.filepath, image.filename)))
        other = files.setdefault(file, image_id)
        if image_id in splits or other != image_id:
            first = splits[image_id if image_id in splits else other]
            raise DataError(
                f"{annotations}: image id {image_id} in split {split!r} ({file}) is duplicated: image id {other} in "
                f"split {first!r} has its id or its file; an image may occur once, in one split"
            )
        splits[image_id] = split
        for sentence in image.sentences:
            where = f"{annotations}: image id {image_id}, sentid {sentence.sentid}"
            if owners.setdefault(sentence.sentid, image_id) != image_id or len(owners) != len(captions) + 1:
                raise DataError(
                    f"{where}: a caption of image id {owners[sentence.sentid]} has this id, too; give each caption a "
                    "different one"
                )
            words = clean_tokens(sentence.tokens or []) or tokenize(sentence.raw)
            if not sentence.raw.strip() or not words:
                raise DataError(
                    f"{where}: the caption is empty or has no word in it ({sentence.raw!r}); write one or remove it"
                )
            captions.append(Caption(image_id, file, split, sentence.sentid, sentence.raw, words))
    need_splits(set(splits.values()), str(annotations))
    return captions
