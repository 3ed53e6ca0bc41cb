"""Miniatures of COCO's files and of Karpathy's splits."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rehearsal.archives import write_zip
from rehearsal.world import CAPTIONS, Photo, World


def write_pictures(world: World, part: str, path: Path) -> None:
    """Write the zip of a part of the pictures: ``train2014/COCO_train2014_000000000009.jpg``."""
    write_zip(path, {f"{part}/{photo.file}": photo.jpeg() for photo in world.part(part)})


def write_caption_datasets(world: World, path: Path) -> None:
    """Write Karpathy's zip: ``dataset_coco.json``, and beside it the files of Flickr8k and Flickr30k."""
    images = [_karpathy_image(number, photo) for number, photo in enumerate(world.photos)]
    others: list[Any] = [{key: value for key, value in image.items() if key not in _OF_COCO} for image in images[-4:]]
    empty = {name: {"images": others, "dataset": name} for name in ("flickr8k", "flickr30k")}
    files: dict[str, Any] = {"coco": {"images": images, "dataset": "coco"}, **empty}
    write_zip(path, {f"dataset_{name}.json": content for name, content in files.items()})


_OF_COCO = ("cocoid", "filepath")


def _karpathy_image(number: int, photo: Photo) -> dict[str, Any]:
    ids = [number * CAPTIONS + place for place in range(CAPTIONS)]
    sentences = [
        {"tokens": re.findall(r"[a-z]+", raw.lower()), "raw": raw, "imgid": number, "sentid": sentence_id}
        for sentence_id, raw in zip(ids, photo.captions, strict=True)
    ]
    return {
        "filepath": photo.part,
        "sentids": ids,
        "filename": photo.file,
        "imgid": number,
        "split": photo.split,
        "sentences": sentences,
        "cocoid": photo.image_id,
    }


def write_annotations(world: World, path: Path) -> None:
    """Write COCO's own annotations of 2014: captions of both parts, instances and keypoints beside them."""
    files: dict[str, Any] = {}
    for part in ("train2014", "val2014"):
        photos = world.part(part)
        rows = [
            {"image_id": photo.image_id, "id": photo.image_id * CAPTIONS + place, "caption": text}
            for photo in photos
            for place, text in enumerate(photo.captions)
        ]
        files[f"annotations/instances_{part}.json"] = _listing(photos) | {"annotations": [], "categories": []}
        files[f"annotations/person_keypoints_{part}.json"] = _listing(photos) | {"annotations": [], "categories": []}
        files[f"annotations/captions_{part}.json"] = _listing(photos) | {"annotations": rows}
    write_zip(path, files)


def write_image_info(world: World, part: str, path: Path) -> None:
    """Write the listing of pictures without captions: ``annotations/image_info_test2014.json``."""
    write_zip(path, {f"annotations/image_info_{part}.json": _listing(world.part(part)) | {"categories": []}})


def _listing(photos: Sequence[Photo]) -> dict[str, Any]:
    images = [
        {
            "license": 1,
            "file_name": photo.file,
            "coco_url": f"http://images.cocodataset.org/{photo.part}/{photo.file}",
            "height": photo.size[1],
            "width": photo.size[0],
            "date_captured": "2013-11-14 16:28:13",
            "id": photo.image_id,
        }
        for photo in photos
    ]
    return {"info": {"year": 2014}, "images": images, "licenses": [{"id": 1, "name": "none", "url": ""}]}


def write_karpathy_list(world: World, split: str, path: Path) -> None:
    """Write one of Karpathy's lists: ``val2014/COCO_val2014_000000391895.jpg 391895`` a line."""
    lines = (f"{photo.part}/{photo.file} {photo.image_id}\n" for photo in world.split(split))
    path.write_text("".join(lines))
