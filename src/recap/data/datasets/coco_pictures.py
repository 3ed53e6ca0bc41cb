"""Pictures of COCO without captions, such as test2014: each becomes a row of the corpus whose caption is empty."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

from pydantic import Field

from recap.core.errors import DataError
from recap.core.hashing import sha256_file
from recap.core.log import log
from recap.data.corpus.corpus import Caption
from recap.data.datasets.base import Built, Entry, check_pictures, parsed
from recap.data.datasets.coco import CocoImage, image_id_of
from recap.data.files.images import ImageSource
from recap.data.files.json_files import read_json_of
from recap.settings.datasets import COCO_PARTS, CocoPicturesDataset


class Listing(Entry):
    """A listing of pictures without captions."""

    images: Annotated[list[CocoImage], Field(min_length=1)]


def build(spec: CocoPicturesDataset, *, inputs: Path, out: Path, name: str) -> Built:
    """List the pictures as images of the split test; arguments and errors as of `recap.data.datasets.base.Reader`."""
    listing = inputs / spec.listing
    files = {image_id: f"{_part(file)}/{file}" for image_id, file in read_listing(listing).items()}
    for part, found in Counter(_part(file) for file in files.values()).items():
        log.info(f"COCO: {found:,} pictures of {part} without captions")
        check_size(part, found, str(listing), partial=spec.partial)
    images = ImageSource([inputs / folder for folder in spec.images])
    check_pictures({file: image_id for image_id, file in files.items()}, images, listing)
    rows = [Caption(image_id, file, "test", image_id, "", []) for image_id, file in files.items()]
    return Built(rows, sha256_file(listing))


def read_listing(path: Path, member: str = "image_info_*.json") -> dict[int, str]:
    """Return image id -> file name of a JSON of COCO, or of the one named like ``member`` in a zip; ids rise."""
    files: dict[int, str] = {}
    for image in parsed(Listing, read_json_of(path, member), str(path)).images:
        if image_id_of(image.file_name) != image.id:
            raise DataError(f"{path}: the image {image.file_name!r} has the id {image.id}, which is not COCO's")
        if image.id in files:
            raise DataError(f"{path}: image id {image.id} is duplicated; fetch it again")
        files[image.id] = image.file_name
    return dict(sorted(files.items()))


def check_size(part: str, found: int, where: str, *, partial: bool) -> None:
    """Compare the number of pictures of a part of COCO with the published one; of other parts none is known."""
    if found == COCO_PARTS.get(part, found):
        return
    sentence = f"{where}: {found:,} images where {part} has {COCO_PARTS[part]:,}"
    if not partial:
        raise DataError(f"{sentence}; fetch it again, or say `partial: true` or --partial if a part is meant")
    log.warning(f"{sentence} (a part only)")


def _part(file: str) -> str:
    """Return the part of COCO that a picture's name says: test2014 of COCO_test2014_000000000001.jpg."""
    return file.rpartition("/")[2].split("_")[1]
