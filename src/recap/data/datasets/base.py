"""What readers of data sets share: their interface,
the check that every picture is there once, and Karpathy's form.

Flickr8k, Flickr30k and whatever is written alike need no more than this form.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Protocol

from pydantic import Field

from recap.core.errors import DataError
from recap.core.hashing import sha256_file
from recap.data.corpus import Caption, WebSample
from recap.data.files.entries import Entry, Id, String, Text, each_of, parsed
from recap.data.files.images import VIEWS, ImageSource
from recap.data.tokenizer import clean_tokens, tokenize
from recap.settings.datasets import KarpathyDataset

#: returns the name of a picture, given its image id and its name in the annotation
PictureName = Callable[[int, str], str]


class Built(NamedTuple):
    """What a reader returns."""

    captions: Iterable[Caption]  #: of all splits
    source_sha256: str  #: a hash of the files that they were read from
    #: where not all pictures were asked for: what draws are shares of (:class:`WebSample`)
    drawn_from: WebSample | None = None


class Reader(Protocol):
    """Reads the data sets of one kind; the config class of the kind names it (``reader``)."""

    def __call__(self, spec: Any, *, inputs: Path, out: Path, name: str) -> Built:
        """Read a data set.

        Args:
            spec: its settings.
            inputs: folder that the paths in the settings are relative to.
            out: folder for the products that the settings announce (``products``).
            name: name of the data set.

        Raises:
            DataError: annotations or pictures are missing or broken.
        """


def check_pictures(ids: Mapping[str, int], source: ImageSource, annotations: Path) -> None:
    """Refuse files (with their image ids) that have no picture
    or seem to be several, and two that would share one."""
    for file in ids:
        if VIEWS in file:
            raise DataError(
                f"{annotations}: image id {ids[file]} has the file {file!r}, and {VIEWS!r} "
                "separates the views of an image in the corpus; rename the picture"
            )
    if not source.roots:
        return  # captions alone are read (`DatasetConfig.captions_alone`)
    if missing := source.missing(ids):
        raise DataError(
            f"{missing[0]}: the picture of image id {ids[missing[0]]} is not in "
            f"{source}{source.other_case(missing[0])} ({len(missing)} such images of {len(ids)}); "
            f"add it, or remove the image from {annotations}"
        )
    owners: dict[object, str] = {}
    for file in ids:
        # a/1.jpg and b/1.jpg both fall back to a lone 1.jpg;
        # one of them would get the other's picture.
        owner = owners.setdefault(source.locate(file), file)
        if owner != file:
            raise DataError(
                f"{file} (image id {ids[file]}) and {owner} (image id {ids[owner]}) are found as "
                "one picture; name all folders of images"
            )


# ---- Karpathy's form


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


def build_karpathy(spec: KarpathyDataset, *, inputs: Path, out: Path, name: str) -> Built:
    """Read a data set as its settings say; arguments and errors as of a `Reader`."""
    annotations = inputs / spec.annotations
    captions = read_karpathy(annotations, merge_restval=spec.merge_restval, member=spec.member)
    source = ImageSource([inputs / images for images in spec.images])
    check_pictures({row.file: row.image_id for row in captions}, source, annotations)
    return Built(captions, sha256_file(annotations))


def read_karpathy(
    annotations: Path,
    *,
    merge_restval: bool,
    member: str = "*.json",
    picture: PictureName = lambda image_id, file: file,
) -> list[Caption]:
    """Read all captions of a Karpathy JSON, or of the one named like ``member`` in a zip.

    See its settings.
    """
    captions = list[Caption]()
    ids = set[int]()
    files = set[str]()
    for position, value in enumerate(each_of(annotations, member, "images")):
        image = parsed(KarpathyImage, value, f"{annotations}: image number {position}")
        image_id = image.imgid if image.cocoid is None else image.cocoid
        if image_id is None:
            raise DataError(
                f"{annotations}: image number {position}: has neither 'cocoid' nor 'imgid'; add one"
            )
        if image.split == "restval" and not merge_restval:
            continue
        split = "train" if image.split == "restval" else image.split
        file = "/".join(filter(None, (image.filepath, image.filename)))
        if image_id in ids or file in files:
            raise DataError(
                f"{annotations}: image id {image_id} in split {split!r} ({file}): its id or its "
                "file is duplicated; an image may occur once, in one split"
            )
        ids.add(image_id)
        files.add(file)
        file = picture(image_id, file)
        for sentence in image.sentences:
            # Interned, words take no memory of their own.
            words = clean_tokens(sentence.tokens or []) or tokenize(sentence.raw)
            words = [sys.intern(word) for word in words]
            captions.append(Caption(image_id, file, split, sentence.sentid, sentence.raw, words))
    return captions
