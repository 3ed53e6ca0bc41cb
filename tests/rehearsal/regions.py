"""Miniatures of published region and grid features, in the forms that docs/reference/feature_files.md describes."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path

import numpy as np

from rehearsal.archives import Content, write_tgz, write_zip
from rehearsal.world import Photo, World, boxes, vectors

_WIDTH = 2048
_CLASSES = 1601  # of Visual Genome, and the background
_OF_BOXES = 6  # numbers of a box that VinVL's vectors end with
_SPREAD = 5  # adaptive files have this many different numbers of regions, from the least on
_LEAST = 10


def write_bottom_up(world: World, path: Path, *, fixed: int | None) -> None:
    """Write ``trainval.zip`` (10 to 100 regions, four files) or ``trainval_36.zip`` (one file).

    Args:
        world: whose photos have features.
        path: the zip.
        fixed: regions of each photo; None: adaptive.
    """
    stem = "resnet101_faster_rcnn_genome"
    if fixed:
        files = {f"trainval_{fixed}/trainval_{stem}_{fixed}.tsv": world.photos}
    else:
        training = world.split("train", "restval")
        half = len(training) // 2
        files = {
            f"trainval/karpathy_train_{stem}.tsv.0": training[:half],
            f"trainval/karpathy_train_{stem}.tsv.1": training[half:],
            f"trainval/karpathy_val_{stem}.tsv": world.split("val"),
            f"trainval/karpathy_test_{stem}.tsv": world.split("test"),
        }
    write_zip(path, {name: _tsv(photos, fixed) for name, photos in files.items()})


def write_bottom_up_test(world: World, path: Path) -> None:
    """Write ``test2014.zip``, whose regions are in three files."""
    stem, photos = "test2014/test2014_resnet101_faster_rcnn_genome.tsv", world.server_photos
    write_zip(path, {f"{stem}.{part}": _tsv(photos[part::3], None) for part in range(3)})


def _tsv(photos: Sequence[Photo], fixed: int | None) -> bytes:
    """Return lines of image_id, image_w, image_h, num_boxes, boxes and features."""
    return b"".join(_line(photo, fixed or _LEAST + photo.image_id % _SPREAD) for photo in photos)


def _line(photo: Photo, count: int) -> bytes:
    numbers = [str(number).encode() for number in (photo.image_id, *photo.size, count)]
    return b"\t".join([*numbers, _text(boxes(photo, count)), _text(vectors(photo.image_id, count, _WIDTH))]) + b"\n"


def _text(array: np.ndarray) -> bytes:
    return base64.b64encode(np.ascontiguousarray(array).tobytes())


def write_vinvl(photos: Sequence[Photo], path: Path) -> None:
    """Write ``features.tsv`` of VinVL: id, number of boxes, and base64 of float32 [boxes, 2054] a line."""
    path.write_bytes(b"".join(_vinvl_lines(photos)))


def write_vinvl_index(photos: Sequence[Photo], path: Path) -> None:
    """Write ``features.lineidx``, which lies beside it: the first byte of each line."""
    path.write_text(_starts(_vinvl_lines(photos)))


def write_caption_pack(world: World, path: Path) -> None:
    """Write ``coco_caption.zip`` of Oscar: a TSV and its index for each split; a line is the id and a JSON."""
    files: dict[str, Content] = {}
    for split, names in {"train": ("train", "restval"), "val": ("val",), "test": ("test",)}.items():
        lines = [_packed(line) for line in _vinvl_lines(world.split(*names))]
        files[f"coco_caption/{split}.feature.tsv"] = b"".join(lines)
        files[f"coco_caption/{split}.feature.lineidx"] = _starts(lines)
    write_zip(path, files)


def _packed(line: bytes) -> bytes:
    """Return a line of VinVL's in the form of the packs for captioning."""
    image_id, count, values = line.rstrip().split(b"\t")
    return image_id + b"\t" + json.dumps({"num_boxes": int(count), "features": values.decode()}).encode() + b"\n"


def _starts(lines: Iterable[bytes]) -> str:
    """Return the first byte of each line."""
    return "".join(f"{start}\n" for start in list(accumulate(map(len, lines), initial=0))[:-1])


def _vinvl_lines(photos: Sequence[Photo]) -> Iterator[bytes]:
    for photo in photos:
        count = _LEAST + photo.image_id % _SPREAD
        values = np.concatenate([vectors(photo.image_id, count, _WIDTH), _relative(photo, count)], 1)
        yield b"\t".join([str(photo.image_id).encode(), str(count).encode(), _text(values)]) + b"\n"


def _relative(photo: Photo, count: int) -> np.ndarray:
    """Return x1/W, y1/H, x2/W, y2/H, w/W and h/H of boxes, float32 [count, 6]."""
    shares = boxes(photo, count) / np.array([*photo.size, *photo.size], np.float32)
    found: np.ndarray = np.concatenate([shares, shares[:, 2:] - shares[:, :2]], 1).astype(np.float32)
    assert found.shape[1] == _OF_BOXES
    return found


def write_detections(world: World, path: Path) -> None:
    """Write ``coco_detections.hdf5``: ``<id>_features``, ``<id>_boxes`` and ``<id>_cls_prob`` of each photo."""
    import h5py

    with h5py.File(path, "w", locking=False) as file:
        for photo in world.photos:
            count = _LEAST + photo.image_id % _SPREAD
            file[f"{photo.image_id}_features"] = vectors(photo.image_id, count, _WIDTH)
            file[f"{photo.image_id}_boxes"] = boxes(photo, count)
            file[f"{photo.image_id}_cls_prob"] = np.full((count, _CLASSES), 1 / _CLASSES, np.float32)


def write_grid_feats(world: World, path: Path) -> None:
    """Write ``X-101-features.tgz``: a tensor [1, 2048, h, w] a photo, in folders by part of the pictures."""
    import torch

    files = {}
    for photo in (*world.photos, *world.server_photos):
        content = io.BytesIO()
        rows, columns = (5, 7) if photo.size[0] > photo.size[1] else (7, 5)
        values = vectors(photo.image_id, _WIDTH, rows * columns).reshape(1, _WIDTH, rows, columns)
        torch.save(torch.from_numpy(values), content)
        files[f"{photo.part.replace('test2014', 'test2015')}/{photo.image_id}.pth"] = content.getvalue()
    write_tgz(path, files)
