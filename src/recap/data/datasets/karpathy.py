"""Reads captions in the form of Karpathy's JSON files: COCO, Flickr8k, Flickr30k and whatever is written alike."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from recap.core.errors import DataError, nearest
from recap.core.hashing import sha256_file
from recap.data.corpus.corpus import SPLITS, Caption, need_splits
from recap.data.corpus.corpus_file import Captions
from recap.data.datasets.base import Built, check_pictures
from recap.data.files.images import ImageSource
from recap.data.files.json_files import each_of
from recap.data.vocabulary.text import clean_tokens, is_storable, tokenize
from recap.settings.datasets import KarpathyDataset


def build(spec: KarpathyDataset, *, inputs: Path, out: Path, name: str) -> Built:
    """Read a data set as its settings say; arguments and errors as :class:`recap.data.datasets.base.Reader`."""
    annotations = inputs / spec.annotations
    captions = read_karpathy(annotations, merge_restval=spec.merge_restval, member=spec.member)
    source = ImageSource([inputs / images for images in spec.images])
    check_pictures({row.file: row.image_id for row in captions}, source, annotations)
    return Built(captions.by_id(), sha256_file(annotations))


def read_karpathy(annotations: Path, *, merge_restval: bool, member: str = "*.json") -> Captions:
    """Read all captions of a Karpathy JSON, or of a zip that holds it.

    Image ids are ``cocoid`` where present, else ``imgid``; files are ``filepath/filename`` where there is a filepath.

    Args:
        annotations: the JSON or zip.
        merge_restval: True counts COCO's ``restval`` images as training images, False leaves them out.
        member: name or pattern of the one JSON in a zip.
    """
    captions = Captions()
    seen = _Seen(annotations)
    for position, image in enumerate(each_of(annotations, member, "images")):
        captions.extend(_image_captions(image, f"{annotations}: image number {position}", merge_restval, seen))
    need_splits(seen.splits, str(annotations))
    return captions


class _Seen:
    """What earlier images used: ids and files must be new, splits are collected."""

    def __init__(self, annotations: Path) -> None:
        self.annotations = annotations
        self.splits: set[str] = set()
        self._images: dict[int, str] = {}
        self._files: dict[str, tuple[int, str]] = {}
        self._captions: dict[int, int] = {}

    def image(self, image_id: int, file: str, split: str) -> None:
        """Note an image; a second one of the same id or file is refused."""
        if image_id in self._images:
            first = self._images[image_id]
            where = f"in split {split!r}" if split == first else f"in splits {first!r} and {split!r}"
            raise DataError(f"{self.annotations}: image id {image_id} is duplicated ({where}); remove one of them")
        if file in self._files:
            other, first = self._files[file]
            raise DataError(
                f"{self.annotations}: {file} is image id {other} in split {first!r} and image id {image_id} "
                f"in split {split!r}; an image may occur once, in one split"
            )
        self._images[image_id] = split
        self._files[file] = (image_id, split)
        self.splits.add(split)

    def caption(self, caption_id: int, image_id: int) -> None:
        """Note a caption; a second one of the same id is refused."""
        if caption_id in self._captions:
            raise DataError(
                f"{self.annotations}: sentid {caption_id} is used by image ids {self._captions[caption_id]} and "
                f"{image_id}; give each caption a different id"
            )
        self._captions[caption_id] = image_id


def _image_captions(image: Any, where: str, merge_restval: bool, seen: _Seen) -> Iterator[Caption]:
    """Check one image and yield its captions."""
    image = _mapping(image, where, "an image")
    image_id = _identifier(image, "cocoid" if "cocoid" in image else "imgid", where)
    where = f"{seen.annotations}: image id {image_id}"
    filepath = _text(image, "filepath", where) if "filepath" in image else ""
    file = "/".join(part for part in (filepath, _text(image, "filename", where)) if part)
    split = _text(image, "split", where)
    if split not in (*SPLITS, "restval"):
        raise DataError(f"{where}: no such split as {split!r}; {nearest(split, (*SPLITS, 'restval'))}")
    if split == "restval" and not merge_restval:
        return
    split = "train" if split == "restval" else split
    seen.image(image_id, file, split)
    sentences = _value(image, "sentences", where)
    if not isinstance(sentences, list) or not sentences:
        raise DataError(f"{where}: it has no captions; add some under 'sentences' or remove the image")
    for sentence in sentences:
        caption_id, raw, tokens = _sentence(sentence, where)
        seen.caption(caption_id, image_id)
        yield Caption(image_id, file, split, caption_id, raw, tokens)


def _sentence(sentence: Any, where: str) -> tuple[int, str, list[str]]:
    """Return id, raw text and words of one caption."""
    sentence = _mapping(sentence, where, "a caption")
    caption_id = _identifier(sentence, "sentid", where)
    where = f"{where}, sentid {caption_id}"
    raw = _text(sentence, "raw", where, empty=True)
    tokens = sentence.get("tokens") or []
    if not isinstance(tokens, list) or not set(map(type, tokens)) <= {str} or not is_storable(" ".join(tokens)):
        raise DataError(f"{where}: 'tokens' must be a list of words; correct or remove it")
    words = clean_tokens(tokens) or tokenize(raw)
    if not raw.strip() or not words:
        raise DataError(f"{where}: the caption is empty or has no word in it ({raw!r}); write one or remove it")
    return caption_id, raw, words


def _mapping(value: Any, where: str, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise DataError(f"{where}: {what} must be a JSON object; is this a Karpathy JSON?")
    return value


def _value(values: dict[str, Any], key: str, where: str) -> Any:
    if key not in values:
        raise DataError(f"{where}: the key {key!r} is missing; add it")
    return values[key]


def _text(values: dict[str, Any], key: str, where: str, *, empty: bool = False) -> str:
    """Return a text that can be stored as UTF-8 (half of a surrogate pair cannot)."""
    value = _value(values, key, where)
    if not isinstance(value, str) or not (value or empty):
        raise DataError(f"{where}: {key!r} must be a text, got {value!r}; correct it")
    if not is_storable(value):
        raise DataError(f"{where}: {key!r} holds half of a surrogate pair, {value!r}; correct it")
    return value


def _identifier(values: dict[str, Any], key: str, where: str) -> int:
    value = _value(values, key, where)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
        raise DataError(f"{where}: {key!r} must be a whole number from 0 to 2^63 - 1, got {value!r}; correct it")
    return value
