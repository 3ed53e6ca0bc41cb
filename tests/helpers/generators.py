"""Tiny files in the layout of the real data sets."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

SENTENCES = ("A dog runs .", "The brown dog is running .", "A dog on grass", "One dog , outside", "It 's a dog !")


def jpeg(number: int, *, edge: int = 32) -> bytes:
    """Return a JPEG whose colour depends on ``number``."""
    content = io.BytesIO()
    Image.new("RGB", (edge, edge + 8), (number * 37 % 256, number * 91 % 256, 120)).save(content, format="JPEG")
    return content.getvalue()


def noise_pictures(folder: Path, sizes: dict[int, tuple[int, int]]) -> Path:
    """Write a PNG of noise for each image id, of so many pixels across and down."""
    folder.mkdir()
    for image_id, (width, height) in sizes.items():
        noise = np.random.default_rng(image_id).integers(0, 256, (height, width, 3), dtype=np.uint8)
        Image.fromarray(noise).save(folder / f"{image_id}.png")
    return folder


def karpathy(*, train: int = 3, val: int = 1, test: int = 2, sentences: tuple[str, ...] = SENTENCES) -> dict[str, Any]:
    """Return the content of a JSON in Karpathy's form, like dataset_flickr8k.json."""
    images: list[dict[str, Any]] = []
    for split, count in (("train", train), ("val", val), ("test", test)):
        for _ in range(count):
            number = len(images)
            sentids = [number * len(sentences) + index for index in range(len(sentences))]
            rows = [
                {"tokens": raw.lower().replace("'", "").rstrip(" .!").replace(" ,", "").split(), "raw": raw,
                 "imgid": number, "sentid": sentid}
                for raw, sentid in zip(sentences, sentids, strict=True)
            ]  # fmt: skip
            image = {"sentids": sentids, "imgid": number, "sentences": rows, "split": split}
            images.append({**image, "filename": f"{number:04d}_ab.jpg"})
    return {"images": images, "dataset": "flickr8k"}


def write_flickr(folder: Path, *, change: Callable[[dict[str, Any]], object] | None = None, **sizes: Any) -> Path:
    """Write dataset.json and images.zip (which holds Flicker8k_Dataset/<name>.jpg) into ``folder`` and return it.

    ``change`` may spoil the JSON's content before it is written; the pictures stay as they were.
    """
    folder.mkdir(parents=True, exist_ok=True)
    content = karpathy(**sizes)
    with zipfile.ZipFile(folder / "images.zip", "w") as archive:
        for image in content["images"]:
            archive.writestr(f"Flicker8k_Dataset/{image['filename']}", jpeg(image["imgid"]))
    if change is not None:
        change(content)
    (folder / "dataset.json").write_text(json.dumps(content), encoding="utf-8")
    return folder
