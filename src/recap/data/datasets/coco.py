"""Microsoft COCO (Lin et al. 2014): captions from Karpathy's JSON or from the plain annotations, counts asserted."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from recap.core.errors import DataError, MissingData
from recap.core.hashing import sha256_file, value_hash
from recap.core.log import log
from recap.data.corpus.corpus import SPLITS, Caption, need_splits
from recap.data.corpus.corpus_file import Captions
from recap.data.datasets.base import Built, Entry, Id, String, Text, check_pictures, parsed
from recap.data.datasets.karpathy import read_karpathy
from recap.data.files.images import ImageSource
from recap.data.files.json_files import read_jsons
from recap.data.vocabulary.text import tokenize
from recap.settings.datasets import COCO_CAPTIONS as CAPTIONS
from recap.settings.datasets import COCO_IMAGES as IMAGES
from recap.settings.datasets import CocoDataset

# The words that Karpathy's file gives at a count of 6; papers count <unk> among them (9,487), and the end too (9,488).
WORDS = (9_486, 9_487)
_NAME = re.compile(r"(?:COCO_(?:train|val|test)20\d\d_)?(\d{12})\.jpg")


class CocoImage(Entry):
    """An image of COCO's annotations."""

    id: Id
    file_name: Text


class CocoCaption(Entry):
    """A caption of COCO's annotations."""

    id: Id
    image_id: Id
    caption: String


class CocoCaptions(Entry):
    """A file of COCO's caption annotations."""

    images: Annotated[list[CocoImage], Field(min_length=1)]
    annotations: Annotated[list[CocoCaption], Field(min_length=1)]


def build(spec: CocoDataset, *, inputs: Path, out: Path, name: str) -> Built:
    """Read COCO as its settings say; arguments and errors as :class:`recap.data.datasets.base.Reader`."""
    images = ImageSource([inputs / folder for folder in spec.images])
    captions = with_pictures(read_coco(spec, inputs), images)
    files = [inputs / file for file in (*spec.annotations, spec.val_list, spec.test_list) if file is not None]
    check_pictures({row.file: row.image_id for row in captions}, images, files[0])
    hashes = [sha256_file(file) for file in files]
    return Built(captions.by_id(), hashes[0] if len(hashes) == 1 else value_hash(hashes))


def read_coco(spec: CocoDataset, inputs: Path) -> Captions:
    """Read COCO's captions, print their counts, and refuse others than the published ones unless ``spec.partial``."""
    where = ", ".join(str(inputs / name) for name in spec.annotations)
    if spec.val_list is None or spec.test_list is None:
        captions = read_karpathy(inputs / spec.annotations[0], merge_restval=True, member="dataset_coco.json")
    else:
        lists = {"val": read_list(inputs / spec.val_list), "test": read_list(inputs / spec.test_list)}
        files = [inputs / name for name in spec.annotations]
        captions = read_plain(files, lists, partial=spec.partial)
    check_counts(captions, where, partial=spec.partial, karpathy=spec.val_list is None)
    need_splits({caption.split for caption in captions}, where)
    return captions


def read_plain(annotations: Sequence[Path], lists: Mapping[str, Mapping[int, str]], *, partial: bool) -> Captions:
    """Read plain annotations (``captions_train2014.json`` ...) by lists of 'val' and 'test': image id -> name.

    Pictures on no list are for training; with ``partial``, listed ones may be absent. Words are those of
    ``text.tokenize``: lower case, without punctuation, as in Karpathy's JSON.
    """
    split = _splits(lists)
    names: dict[int, str] = {}
    captions = Captions()
    caption_ids: set[int] = set()
    for path in annotations:
        parts = read_jsons(path, "captions_*.json")
        if not parts:
            raise DataError(f"{path}: holds no captions_*.json; name COCO's caption annotations")
        for content in parts.values():
            captions.extend(_captions(content, path, names, caption_ids, split))
    bare = set(names) - {caption.image_id for caption in captions}
    if bare:
        raise DataError(f"{annotations[0]}: image id {min(bare)} has no caption; add one or remove the image")
    absent = sorted(set(split) - set(names))
    if absent and not partial:
        raise DataError(
            f"{annotations[0]}: image id {absent[0]} of the {split[absent[0]]} list is not in the annotations (nor are "
            f"{len(absent) - 1} others); name all annotations, or say `partial: true`"
        )
    return captions


def read_list(path: Path) -> dict[int, str]:
    """Read one of Karpathy's lists: lines ``val2014/COCO_val2014_000000391895.jpg 391895``, as image id -> name."""
    if not path.is_file():
        raise MissingData(f"{path}: no such list of pictures; correct the key 'val_list' or 'test_list'")
    found: dict[int, str] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
        words = line.split()
        if not words:
            continue
        image_id = image_id_of(words[0])
        if image_id is None or words[1:] not in ([], [str(image_id)]):
            raise DataError(f"{path} line {number}: expected 'val2014/COCO_val2014_<12 digits>.jpg id', got {line!r}")
        if image_id in found:
            raise DataError(f"{path} line {number}: image id {image_id} is duplicated; remove one")
        found[image_id] = words[0]
    if not found:
        raise DataError(f"{path}: names no pictures; fetch it again")
    return found


def image_id_of(name: str) -> int | None:
    """Return the image id in a file name of 2014 or of 2017, with or without its folder; None if there is none."""
    found = _NAME.fullmatch(name.rsplit("/", 1)[-1])
    return int(found[1]) if found else None


def picture_names(image_id: int) -> tuple[str, ...]:
    """Return the names that the picture of an annotated image has in the files of 2014 and of 2017."""
    in_2014 = tuple(f"{part}/COCO_{part}_{image_id:012d}.jpg" for part in ("train2014", "val2014"))
    return (*in_2014, f"{image_id:012d}.jpg")


def with_pictures(captions: Sequence[Caption], source: ImageSource) -> Captions:
    """Return captions whose ``file`` is the name that the pictures at hand have, of 2014 or of 2017.

    A picture that is there under neither name keeps the name of its annotation.
    """
    names: dict[int, str] = {}
    for caption in captions:
        if caption.image_id not in names:
            tried = (caption.file, *picture_names(caption.image_id))
            names[caption.image_id] = next((name for name in tried if source.locate(name)), caption.file)
    found = Captions()
    found.extend(replace(caption, file=names[caption.image_id]) for caption in captions)
    return found


def check_counts(captions: Sequence[Caption], where: str, *, partial: bool, karpathy: bool) -> None:
    """Print the counts of images, captions and words; refuse others than COCO's unless ``partial``."""
    splits = {caption.image_id: caption.split for caption in captions}
    images = {split: list(splits.values()).count(split) for split in SPLITS}
    counted: Counter[str] = Counter(word for caption in captions for word in caption.tokens)
    words = sum(count >= 6 for count in counted.values())
    shares = " / ".join(f"{images[split]:,}" for split in SPLITS)
    log.info(
        f"COCO: {sum(images.values()):,} images ({shares}), {len(captions):,} captions, {words:,} words seen 6 times"
    )
    if partial:
        log.info(
            f"COCO: a part only, counts not asserted; the whole has {sum(IMAGES.values()):,} images in Karpathy's split"
        )
        return
    if images != IMAGES or len(captions) != CAPTIONS:
        wanted = " / ".join(f"{IMAGES[split]:,}" for split in SPLITS)
        raise DataError(
            f"{where}: {shares} images and {len(captions):,} captions, where COCO in Karpathy's split has {wanted} and "
            f"{CAPTIONS:,}; fetch the files again, or say `partial: true` if a part is meant"
        )
    if karpathy and words not in WORDS:
        raise DataError(f"{where}: {words:,} words are seen 6 times where {WORDS[1]:,} are known; fetch the file again")
    log.info(
        f"COCO: papers write '5 captions each' (5 x {sum(IMAGES.values()):,} = {5 * sum(IMAGES.values()):,}); "
        f"{CAPTIONS - 5 * sum(IMAGES.values())} captions more are there, because some pictures have more than five"
    )
    log.info("COCO: papers print 9,487 words with <unk> counted among them, 9,488 with the end counted too")


def _splits(lists: Mapping[str, Mapping[int, str]]) -> dict[int, str]:
    both = set(lists["val"]) & set(lists["test"])
    if both:
        raise DataError(f"image id {min(both)} is on the val list and on the test list; an image is in one split")
    return {image_id: split for split, listed in lists.items() for image_id in listed}


def _captions(
    content: Any, path: Path, names: dict[int, str], caption_ids: set[int], split: Mapping[int, str]
) -> Iterator[Caption]:
    """Check one annotation file and yield its captions; ``names`` and ``caption_ids`` grow."""
    file = parsed(CocoCaptions, content, str(path))
    for image in file.images:
        if image.id in names:
            raise DataError(f"{path}: image id {image.id} is duplicated in the annotations; name each file once")
        if image_id_of(image.file_name) != image.id:
            raise DataError(f"{path}: image id {image.id} has the file name {image.file_name!r}, which is not COCO's")
        name = image.file_name
        names[image.id] = f"{name.split('_')[1]}/{name}" if name.startswith("COCO_") else name
    for entry in file.annotations:
        if entry.id in caption_ids:
            raise DataError(f"{path}: caption id {entry.id} is duplicated; give each caption a different id")
        if entry.image_id not in names:
            raise DataError(
                f"{path}: caption id {entry.id} names image id {entry.image_id}, which is not there; remove it"
            )
        words = tokenize(entry.caption)
        if not words:
            raise DataError(f"{path}: caption id {entry.id} of image id {entry.image_id} has no word in it; remove it")
        caption_ids.add(entry.id)
        image_split = split.get(entry.image_id, "train")
        yield Caption(entry.image_id, names[entry.image_id], image_split, entry.id, entry.caption, words)
