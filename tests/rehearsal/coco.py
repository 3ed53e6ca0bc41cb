"""Files of COCO and of Karpathy's splits, from names and captions.

And the miniatures of the published ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rehearsal.archives import write_zip
from rehearsal.world import CAPTIONS, Photo, World, size_of


def karpathy_image(
    number: int,
    file: str,
    split: str,
    captions: Sequence[str],
    *,
    tokens: Sequence[Sequence[str]] = (),
    ids: Sequence[int] = (),
    **of_coco: Any,
) -> dict[str, Any]:
    """Return an image of Karpathy's JSON.

    Those of COCO have ``filepath`` and ``cocoid`` besides.
    """
    ids = ids or range(number * len(captions), (number + 1) * len(captions))
    words = tokens or [re.findall(r"[a-z]+", raw.lower()) for raw in captions]
    sentences = [
        {"tokens": list(said), "raw": raw, "imgid": number, "sentid": caption_id}
        for said, raw, caption_id in zip(words, captions, ids, strict=True)
    ]
    known = {
        "sentids": list(ids),
        "imgid": number,
        "sentences": sentences,
        "split": split,
        "filename": file,
    }
    return {**known, **of_coco}


def listing(files: Mapping[int, str]) -> dict[str, Any]:
    """Return what a JSON of COCO's says of pictures: image id -> file name."""
    images = [
        {
            "license": 1,
            "file_name": file,
            "coco_url": f"http://images.cocodataset.org/{file}",
            "height": size_of(image_id)[1],
            "width": size_of(image_id)[0],
            "date_captured": "2013-11-14 16:28:13",
            "id": image_id,
        }
        for image_id, file in files.items()
    ]
    return {
        "info": {"year": 2014},
        "images": images,
        "licenses": [{"id": 1, "name": "none", "url": ""}],
    }


def captions_of(
    files: Mapping[int, str], captions: Iterable[tuple[int, int, str]]
) -> dict[str, Any]:
    """Return the content of a captions_*.json.

    A caption is its id, the id of its image, and the text.
    """
    rows = [
        {"id": caption_id, "image_id": image_id, "caption": text}
        for caption_id, image_id, text in captions
    ]
    return listing(files) | {"annotations": rows}


def list_line(part: str, file: str, image_id: int) -> str:
    """Return a line of Karpathy's lists: ``val2014/COCO_val2014_000000391895.jpg 391895``."""
    return f"{part}/{file} {image_id}\n"


def _files(photos: Sequence[Photo]) -> dict[int, str]:
    return {photo.image_id: photo.file for photo in photos}


def write_pictures(part: str, world: World, path: Path) -> None:
    """Write the zip of a part of the pictures: ``train2014/COCO_train2014_000000000009.jpg``."""
    write_zip(path, {f"{part}/{photo.file}": photo.jpeg() for photo in world.part(part)})


def write_caption_datasets(world: World, path: Path) -> None:
    """Write Karpathy's zip: ``dataset_coco.json``,
    and beside it the files of Flickr8k and Flickr30k."""
    numbered = list(enumerate(world.photos))
    images = [
        karpathy_image(
            number, each.file, each.split, each.captions, filepath=each.part, cocoid=each.image_id
        )
        for number, each in numbered
    ]
    others = [
        karpathy_image(number, each.file, each.split, each.captions)
        for number, each in numbered[-4:]
    ]
    files = {"coco": images, "flickr8k": others, "flickr30k": others}
    write_zip(
        path,
        {f"dataset_{name}.json": {"images": each, "dataset": name} for name, each in files.items()},
    )


def write_annotations(world: World, path: Path) -> None:
    """Write COCO's own annotations of 2014:
    captions of both parts, instances and keypoints beside them."""
    contents: dict[str, Any] = {}
    for part in ("train2014", "val2014"):
        photos = world.part(part)
        captions = [
            (photo.image_id * CAPTIONS + place, photo.image_id, text)
            for photo in photos
            for place, text in enumerate(photo.captions)
        ]
        empty = listing(_files(photos)) | {"annotations": [], "categories": []}
        contents |= {
            f"annotations/{kind}_{part}.json": empty for kind in ("instances", "person_keypoints")
        }
        contents[f"annotations/captions_{part}.json"] = captions_of(_files(photos), captions)
    write_zip(path, contents)


def write_image_info(part: str, world: World, path: Path) -> None:
    """Write the listing of pictures without captions: ``annotations/image_info_test2014.json``."""
    content = listing(_files(world.part(part))) | {"categories": []}
    write_zip(path, {f"annotations/image_info_{part}.json": content})


def write_karpathy_list(split: str, world: World, path: Path) -> None:
    """Write one of Karpathy's lists."""
    path.write_text(
        "".join(list_line(each.part, each.file, each.image_id) for each in world.split(split))
    )
