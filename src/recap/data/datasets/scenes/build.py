"""The built-in data set: pictures of a few objects, with captions that need counting, colours and relations."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from recap.core.documents import write_json
from recap.core.errors import DataError
from recap.core.files import atomic_path
from recap.core.hashing import generator, sha256_file
from recap.core.log import progress
from recap.data.corpus.corpus import Caption
from recap.data.datasets.base import Built
from recap.data.datasets.scenes.captions import describe
from recap.data.datasets.scenes.layout import MAX_PER_KIND, Scene, invent_scene
from recap.data.vocabulary.text import tokenize
from recap.settings.datasets import PICTURES, SCENE_CAPTIONS, ScenesDataset

_TIME = (2000, 1, 1, 0, 0, 0)


def build(spec: ScenesDataset, *, inputs: Path, out: Path, name: str) -> Built:
    """Render the data set as its settings say; arguments as of a `Reader`, of which ``inputs`` is not used."""
    captions = render_scenes(
        train=spec.train,
        val=spec.val,
        test=spec.test,
        size=spec.size,
        max_per_kind=spec.max_per_kind,
        seed=spec.seed,
        out=out,
    )
    return Built(captions, sha256_file(out / PICTURES))


def render_scenes(
    *, train: int, val: int, test: int, size: int, max_per_kind: int, seed: int, out: Path
) -> list[Caption]:
    """Write images.zip and boxes.json into ``out`` and return five captions per picture.

    Equal arguments give equal bytes. No two pictures share a description. Pictures are numbered test first, then val,
    then train, so that another number of training pictures leaves the test pictures as they are. ``size`` is the edge
    of a picture, at least 32; of one kind a picture has 1 to ``max_per_kind`` (at most 5) objects.
    """
    if not 1 <= max_per_kind <= MAX_PER_KIND:
        raise DataError(f"scenes: max_per_kind is {max_per_kind}; it must be between 1 and {MAX_PER_KIND}")
    if min(train, val, test) < 1 or size < 32:
        raise DataError(f"scenes: every split needs a picture and size at least 32, got {train}, {val}, {test}, {size}")
    splits = ["test"] * test + ["val"] * val + ["train"] * train
    captions: list[Caption] = []
    boxes: list[dict[str, Any]] = []
    out.mkdir(parents=True, exist_ok=True)
    with atomic_path(out / PICTURES) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive:
        scenes = zip(splits, distinct_scenes(len(splits), max_per_kind, seed), strict=True)
        for number, (split, scene) in enumerate(progress(scenes, name="scenes", unit="pictures", total=len(splits))):
            file = f"{number:06d}.png"
            content, record = _picture(scene, size=size, random=generator(seed, "picture", number))
            archive.writestr(_entry(file), content)
            boxes.append({"image_id": number, "file": file, "split": split, **record})
            for index, text in enumerate(describe(scene, random=generator(seed, "captions", number))):
                captions.append(Caption(number, file, split, number * SCENE_CAPTIONS + index, text, tokenize(text)))
    write_json(out / "boxes.json", {"size": size, "seed": seed, "images": boxes})
    return captions


def distinct_scenes(count: int, max_per_kind: int, seed: int) -> Iterator[Scene]:
    """Yield ``count`` scenes no two of which share a description."""
    seen: set[str] = set()
    for number in range(count):
        random = generator(seed, "scene", number)
        scene = invent_scene(random, max_per_kind)
        while scene.description in seen:
            scene = invent_scene(random, max_per_kind)
        seen.add(scene.description)
        yield scene


def _picture(scene: Scene, *, size: int, random: np.random.Generator) -> tuple[bytes, dict[str, Any]]:
    """Return a scene as PNG bytes, and what boxes.json says of it (boxes in pixels: left, top, right, bottom)."""
    from recap.data.datasets.scenes.pictures import paint

    picture, boxes = paint(scene, size=size, random=random)
    content = io.BytesIO()
    picture.save(content, format="PNG", compress_level=6)
    objects = []
    for box in boxes:
        group = scene.groups[box.group]
        look = {"shape": group.shape, "colour": group.colour, "size": group.size, "texture": group.texture}
        corners = [box.left, box.top, box.right, box.bottom]
        objects.append({"group": box.group, "box": corners, "drawn": list(box.drawn), **look})
    record = {"background": scene.background, "arrangement": scene.arrangement, "objects": objects}
    return content.getvalue(), record


def _entry(name: str) -> zipfile.ZipInfo:
    """Return a zip entry that is the same on every day and system."""
    entry = zipfile.ZipInfo(name, date_time=_TIME)
    entry.create_system = 3
    entry.external_attr = 0o644 << 16
    return entry
