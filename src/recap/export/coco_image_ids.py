"""The image ids that a submission to COCO's caption server must cover: 40,775 test and 40,504 validation pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from recap.core.errors import DataError
from recap.core.files.json_files import write_json
from recap.core.hashing import value_hash
from recap.core.log import log
from recap.data.datasets.coco import image_id_of
from recap.data.files.json_files import read_json_of

SERVER = {"test2014": 40_775, "val2014": 40_504}


def write_server_ids(*, info: Path, annotations: Path, out: Path, partial: bool = False) -> dict[str, list[int]]:
    """Write the ids of test2014 and val2014, rising, and return them by split.

    Args:
        info: image_info_test2014.json, or the zip that holds it.
        annotations: captions_val2014.json, or the zip that holds it.
        out: JSON with test2014, val2014 and hash.
        partial: True allows other counts and says so.

    Raises:
        DataError: a file is missing or broken, an id is duplicated, or a count is not the published one.
    """
    files = {"test2014": (info, "image_info_test2014.json"), "val2014": (annotations, "captions_val2014.json")}
    ids = {split: _ids(*files[split]) for split in SERVER}
    for split, numbers in ids.items():
        log.info(f"COCO server: {len(numbers):,} images of {split}")
        if len(numbers) != SERVER[split]:
            sentence = f"{files[split][0]}: {len(numbers):,} images where {split} has {SERVER[split]:,}"
            if not partial:
                raise DataError(f"{sentence}; fetch it again, or say --partial if a part is meant")
            log.warning(f"{sentence} (a part only)")
    write_json(out, {**ids, "hash": value_hash(ids)})
    return ids


def _ids(path: Path, name: str) -> list[int]:
    content = read_json_of(path, name)
    images: Any = content.get("images") if isinstance(content, dict) else None
    if not isinstance(images, list) or not all(isinstance(image, dict) for image in images):
        raise DataError(f"{path}: no list of images under the key 'images'; is this {name}?")
    ids = []
    for image in images:
        number, file = image.get("id"), str(image.get("file_name"))
        if not isinstance(number, int) or image_id_of(file) != number:
            raise DataError(f"{path}: the image {file!r} has the id {number!r}, which is not COCO's")
        ids.append(number)
    if len(set(ids)) != len(ids):
        raise DataError(f"{path}: an image id is duplicated; fetch it again")
    return sorted(ids)
