"""Tiny files in the layout of Flickr8k, and pictures."""

import io
import json

import numpy as np
from PIL import Image

from rehearsal.archives import write_zip
from rehearsal.coco import karpathy_image

SENTENCES = (
    "A dog runs .",
    "The brown dog is running .",
    "A dog on grass",
    "One dog , outside",
    "It 's a dog !",
)


def jpeg(number, *, edge=32):
    """Return a JPEG whose color depends on ``number``."""
    content = io.BytesIO()
    Image.new("RGB", (edge, edge + 8), (number * 37 % 256, number * 91 % 256, 120)).save(
        content, format="JPEG"
    )
    return content.getvalue()


# What a camera turns a picture by before it stores it with an EXIF orientation.
STORED_BY = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}


def save_lying(picture, path, orientation, **options):
    """Save a picture as a phone does that is held another way:
    turned, with the EXIF orientation that says so."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    picture.transpose(STORED_BY[orientation]).save(path, exif=exif, **options)


def noise_pictures(folder, sizes):
    """Write a PNG of noise for each image id, of so many pixels across and down."""
    folder.mkdir()
    for image_id, (width, height) in sizes.items():
        noise = np.random.default_rng(image_id).integers(0, 256, (height, width, 3), dtype=np.uint8)
        Image.fromarray(noise).save(folder / f"{image_id}.png")
    return folder


def karpathy(*, train=3, val=1, test=2, sentences=SENTENCES):
    """Return the content of a JSON in Karpathy's form, like dataset_flickr8k.json."""
    splits = ["train"] * train + ["val"] * val + ["test"] * test
    images = [
        karpathy_image(n, f"{n:04d}_ab.jpg", split, sentences) for n, split in enumerate(splits)
    ]
    return {"images": images, "dataset": "flickr8k"}


def write_flickr(folder, *, change=None, **sizes):
    """Write dataset.json, whose content ``change`` may spoil, and images.zip (of
    Flicker8k_Dataset/<name>.jpg)."""
    folder.mkdir(parents=True, exist_ok=True)
    content = karpathy(**sizes)
    pictures = {
        f"Flicker8k_Dataset/{image['filename']}": jpeg(image["imgid"])
        for image in content["images"]
    }
    write_zip(folder / "images.zip", pictures)
    if change is not None:
        change(content)
    (folder / "dataset.json").write_text(json.dumps(content), encoding="utf-8")
    return folder
