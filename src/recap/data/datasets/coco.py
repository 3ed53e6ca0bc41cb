"""Microsoft COCO (Lin et al. 2014): captions by Karpathy's split, counts asserted.

Pictures without captions.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Annotated

from pydantic import Field

from recap.core.errors import DataError
from recap.core.files import reading
from recap.core.hashing import sha256_file, value_hash
from recap.core.log import log
from recap.data.corpus import SPLITS, Caption, warn_of_part
from recap.data.datasets.base import Built, PictureName, check_pictures, read_karpathy
from recap.data.files.entries import Entry, Id, String, Text, parsed, read_json_of, read_jsons
from recap.data.files.images import ImageSource
from recap.data.tokenizer import tokenize
from recap.settings.datasets import (
    COCO_CAPTIONS,
    COCO_IMAGES,
    COCO_PARTS,
    CocoDataset,
    CocoPicturesDataset,
)

# Names of 2014 and of 2017.
_FORMS = (
    "train2014/COCO_train2014_{:012d}.jpg",
    "val2014/COCO_val2014_{:012d}.jpg",
    "{:012d}.jpg",
)
# The words that Karpathy's file gives at a count of 6;
# papers count <unk> among them (9,487), and the end too (9,488).
WORDS = (9_486, 9_487)
_NAME = re.compile(r"(?:COCO_((?:train|val|test)20\d\d)_)?(\d{12})\.jpg")


class Image(Entry):
    """An image of COCO's files."""

    id: Id
    file_name: Text


class Annotation(Entry):
    """A caption of an image."""

    id: Id
    image_id: Id
    caption: String


class Listing(Entry):
    """A file of pictures without captions."""

    images: Annotated[list[Image], Field(min_length=1)]


class Annotations(Listing):
    """A file of pictures with their captions."""

    annotations: Annotated[list[Annotation], Field(min_length=1)]


def build(spec: CocoDataset, *, inputs: Path, out: Path, name: str) -> Built:
    """Read COCO as its settings say; arguments and errors as
    :class:`recap.data.datasets.base.Reader`."""
    source = ImageSource([inputs / folder for folder in spec.images])
    annotations = files = [inputs / file for file in spec.annotations]
    where = ", ".join(map(str, annotations))

    @cache
    def picture(image_id: int, file: str) -> str:
        """Return the name of a picture that is there, else that of its annotation."""
        names = [file, *(form.format(image_id) for form in _FORMS)]
        return next(filter(source.locate, names), file)

    if spec.val_list is None or spec.test_list is None:
        captions = read_karpathy(
            annotations[0], merge_restval=True, member="dataset_coco.json", picture=picture
        )
    else:
        files = [*annotations, inputs / spec.val_list, inputs / spec.test_list]
        lists = {"val": read_list(files[-2]), "test": read_list(files[-1])}
        captions = read_plain(annotations, lists, spec.partial, picture=picture)
    check_counts(captions, where, partial=spec.partial, karpathy=spec.val_list is None)
    check_pictures({row.file: row.image_id for row in captions}, source, files[0])
    hashes = [sha256_file(file) for file in files]
    return Built(captions, hashes[0] if len(hashes) == 1 else value_hash(hashes))


def read_plain(
    annotations: Sequence[Path],
    lists: Mapping[str, Mapping[int, str]],
    partial: bool,
    picture: PictureName = lambda image_id, file: file,
) -> list[Caption]:
    """Read plain annotations (``captions_train2014.json`` ...)
    by lists of 'val' and 'test': image id -> name.

    Pictures on no list are for training; with ``partial``, listed ones may be absent. ``picture``
    returns the name of a picture, given its image id and its name in the annotation.
    """
    both = set(lists["val"]) & set(lists["test"])
    if both:
        raise DataError(
            f"image id {min(both)} is on the val list and on the test list; an image is in one "
            "split"
        )
    split_of = dict.fromkeys(lists["val"], "val") | dict.fromkeys(lists["test"], "test")
    names: dict[int, str] = {}
    captions: list[Caption] = []
    for path in annotations:
        for content in read_jsons(path).values():
            file = parsed(Annotations, content, str(path))
            _add_names(names, file, path)
            for entry in file.annotations:
                if entry.image_id not in names:
                    raise DataError(
                        f"{path}: caption id {entry.id} of image id {entry.image_id}, of which "
                        "there is no such image; correct or remove it"
                    )
                image = picture(entry.image_id, names[entry.image_id])
                split = split_of.get(entry.image_id, "train")
                words = [sys.intern(word) for word in tokenize(entry.caption)]
                captions.append(
                    Caption(entry.image_id, image, split, entry.id, entry.caption, words)
                )
    absent = sorted(set(split_of) - set(names))
    if absent and not partial:
        raise DataError(
            f"{annotations[0]}: image id {absent[0]} of the {split_of[absent[0]]} list is not in "
            f"the annotations (nor are {len(absent) - 1} others); name all annotations, "
            "or say `partial: true`"
        )
    return captions


def read_list(path: Path) -> dict[int, str]:
    """Read one of Karpathy's lists: lines
    ``val2014/COCO_val2014_000000391895.jpg 391895``, as image id -> name."""
    with reading(path, DataError, missing="correct the key 'val_list' or 'test_list'"):
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    names: dict[int, str] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        name, *rest = line.split()
        match = _NAME.fullmatch(name.rpartition("/")[2])
        image_id = int(match[2]) if match else None
        if image_id is None or rest not in ([], [str(image_id)]) or image_id in names:
            raise DataError(
                f"{path} line {number}: expected 'val2014/COCO_val2014_<12 digits>.jpg id', each "
                f"picture once, got {line!r}; correct it"
            )
        names[image_id] = name
    return names


def _add_names(names: dict[int, str], listing: Listing, path: Path) -> dict[int, str]:
    """Add the file of each image id; names of 2014 get their folder."""
    for image in listing.images:
        match = _NAME.fullmatch(image.file_name)
        if match is None or int(match[2]) != image.id or image.id in names:
            wrong = "has a file name that is not COCO's"
            if image.id in names:
                wrong = "is duplicated"
            raise DataError(
                f"{path}: image id {image.id} ({image.file_name!r}) {wrong}; name each file of "
                "COCO once"
            )
        names[image.id] = f"{match[1]}/{image.file_name}" if match[1] else image.file_name
    return names


def check_counts(captions: Sequence[Caption], where: str, *, partial: bool, karpathy: bool) -> None:
    """Print the counts of images, captions and words.

    Refuse others than COCO's unless ``partial``.
    """
    splits = Counter({caption.image_id: caption.split for caption in captions}.values())
    counts = Counter(chain.from_iterable(caption.tokens for caption in captions))
    words = sum(count >= 6 for count in counts.values())
    found = (
        f"{' / '.join(f'{splits[split]:,}' for split in SPLITS)} images, {len(captions):,} "
        f"captions, {words:,} words 6 times"
    )
    log.info(f"COCO: {found}{', a part whose counts are not asserted' if partial else ''}")
    whole = dict(splits) == COCO_IMAGES and len(captions) == COCO_CAPTIONS
    if not partial and (not whole or (karpathy and words not in WORDS)):
        raise DataError(
            f"{where}: {found}, where COCO in Karpathy's split has "
            f"{' / '.join(f'{count:,}' for count in COCO_IMAGES.values())} images, "
            f"{COCO_CAPTIONS:,} captions, {WORDS[1]:,} words; fetch the files again, or say "
            "`partial: true` if a part is meant"
        )


def build_pictures(spec: CocoPicturesDataset, *, inputs: Path, out: Path, name: str) -> Built:
    """List pictures as images of the split test.

    Arguments and errors as of `recap.data.datasets.base.Reader`.
    """
    listing = inputs / spec.listing
    content = parsed(Listing, read_json_of(listing, "image_info_*.json"), str(listing))
    files = dict(sorted(_add_names({}, content, listing).items()))
    parts = Counter(file.rpartition("/")[0] or "COCO" for file in files.values())
    for part, count in parts.items():
        log.info(f"COCO: {count:,} pictures of {part} without captions")
        check_size(part, count, str(listing), partial=spec.partial)
    source = ImageSource([inputs / folder for folder in spec.images])
    check_pictures({file: image_id for image_id, file in files.items()}, source, listing)
    rows = [Caption(image_id, file, "test", image_id, "", []) for image_id, file in files.items()]
    return Built(rows, sha256_file(listing))


def check_size(part: str, count: int, where: str, *, partial: bool) -> None:
    """Compare the number of pictures of a part of COCO with the published one.

    Of other parts none is known.
    """
    known = COCO_PARTS.get(part, count)
    if count != known and not partial:
        raise DataError(
            f"{where}: {count:,} images where {part} has {known:,}; fetch it again, or say "
            "`partial: true` or --partial if a part is meant"
        )
    warn_of_part(where, count, known, f"images of {part}")
