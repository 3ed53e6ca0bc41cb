"""Files of published features, from arrays, in the forms of docs/reference/feature_files.md.

And miniatures of them.
"""

from __future__ import annotations

import base64
import io
import json
import pickle
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path

import numpy as np

from rehearsal.archives import Content, write_tgz, write_zip
from rehearsal.world import Photo, World, boxes, vectors

_WIDTH = 2048
_CLASSES = 1601  # of Visual Genome, and the background
_SPREAD = 5  # adaptive files have this many different numbers of regions, from the least on
_LEAST = 10
# a few tensors under the published names, which are fetched and hashed, and not loaded
_DETECTOR = {
    "backbone.stem.conv1.weight": (4, 3, 7, 7),
    "proposal_generator.rpn_head.conv.weight": (4, 4, 3, 3),
    "roi_heads.box_predictor.cls_score.weight": (5, 8),
    "roi_heads.box_predictor.bbox_pred.weight": (16, 8),
}


def encoded(array: np.ndarray) -> bytes:
    """Return the numbers of an array in base64."""
    return base64.b64encode(np.ascontiguousarray(array).tobytes())


def fields(*values: object) -> bytes:
    """Return a line of a TSV without its end."""
    return b"\t".join(
        value if isinstance(value, bytes) else str(value).encode() for value in values
    )


def lines(each: Iterable[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in each)


def bottom_up_line(
    name: object, size: tuple[int, int], corners: np.ndarray, values: np.ndarray
) -> bytes:
    """Return image_id, image_w, image_h, num_boxes, boxes and features of an image."""
    return fields(name, *size, len(values), encoded(corners), encoded(values))


def vinvl_line(name: object, values: np.ndarray, *, packed: bool = False) -> bytes:
    """Return a line of VinVL's features.

    ``packed`` in the form of the packs for captioning, whose end is a JSON.
    """
    if packed:
        return fields(
            name, json.dumps({"num_boxes": len(values), "features": encoded(values).decode()})
        )
    return fields(name, len(values), encoded(values))


def line_index(each: Iterable[bytes]) -> str:
    """Return the content of a ``.lineidx``: the first byte of each line."""
    return "".join(
        f"{start}\n" for start in list(accumulate((len(line) + 1 for line in each), initial=0))[:-1]
    )


def shares(corners: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Return x1/W, y1/H, x2/W, y2/H, w/W and h/H of boxes,
    float32 [count, 6], as vectors of VinVL end."""
    relative = corners / np.array([*size, *size], np.float32)
    return np.concatenate([relative, relative[:, 2:] - relative[:, :2]], 1).astype(np.float32)


def write_hdf5(path: Path, arrays: Mapping[str, np.ndarray]) -> Path:
    """Write datasets by name, such as ``<id>_features``."""
    import h5py

    with h5py.File(path, "w", locking=False) as file:
        for name, array in arrays.items():
            file[name] = array
    return path


def torch_bytes(values: object) -> bytes:
    """Return what ``torch.save`` writes."""
    import torch

    content = io.BytesIO()
    torch.save(values, content)
    return content.getvalue()


def write_bottom_up(fixed: int | None, world: World, path: Path) -> None:
    """Write ``trainval.zip`` (10 to 100 regions, four files)
    or ``trainval_36.zip`` (a fixed number, one file)."""
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
    write_zip(path, {name: _bottom_up(photos, fixed) for name, photos in files.items()})


def write_bottom_up_test(world: World, path: Path) -> None:
    """Write ``test2014.zip``, whose regions are in three files."""
    stem, photos = "test2014/test2014_resnet101_faster_rcnn_genome.tsv", world.server_photos
    write_zip(path, {f"{stem}.{part}": _bottom_up(photos[part::3]) for part in range(3)})


def _bottom_up(photos: Sequence[Photo], fixed: int | None = None) -> bytes:
    return lines(
        bottom_up_line(each.image_id, each.size, *_regions(each, fixed)) for each in photos
    )


def _regions(photo: Photo, fixed: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return boxes and vectors."""
    count = fixed or _LEAST + photo.image_id % _SPREAD
    return boxes(photo, count), vectors(photo.image_id, count, _WIDTH)


def write_vinvl(world: World, path: Path) -> None:
    """Write ``features.tsv`` of VinVL."""
    path.write_bytes(lines(_vinvl(world.photos)))


def write_vinvl_index(world: World, path: Path) -> None:
    """Write ``features.lineidx``, which lies beside it."""
    path.write_text(line_index(_vinvl(world.photos)))


def write_caption_pack(world: World, path: Path) -> None:
    """Write ``coco_caption.zip`` of Oscar: a TSV and its index for each split."""
    files: dict[str, Content] = {}
    for split, names in {"train": ("train", "restval"), "val": ("val",), "test": ("test",)}.items():
        packed = _vinvl(world.split(*names), packed=True)
        files[f"coco_caption/{split}.feature.tsv"] = lines(packed)
        files[f"coco_caption/{split}.feature.lineidx"] = line_index(packed)
    write_zip(path, files)


def _vinvl(photos: Sequence[Photo], *, packed: bool = False) -> list[bytes]:
    found = []
    for photo in photos:
        corners, values = _regions(photo)
        whole = np.concatenate([values, shares(corners, photo.size)], 1)
        found.append(vinvl_line(photo.image_id, whole, packed=packed))
    return found


def write_detections(world: World, path: Path) -> None:
    """Write ``coco_detections.hdf5``: ``<id>_features``,
    ``<id>_boxes`` and ``<id>_cls_prob`` of each photo."""
    arrays = {}
    for photo in world.photos:
        corners, values = _regions(photo)
        arrays[f"{photo.image_id}_features"] = values
        arrays[f"{photo.image_id}_boxes"] = corners
        arrays[f"{photo.image_id}_cls_prob"] = np.full(
            (len(values), _CLASSES), 1 / _CLASSES, np.float32
        )
    write_hdf5(path, arrays)


def write_grid_feats(world: World, path: Path) -> None:
    """Write ``X-101-features.tgz``: a tensor [1, 2048, h, w] a photo,
    in folders by part of the pictures."""
    import torch

    files = {}
    for photo in (*world.photos, *world.server_photos):
        rows, columns = (5, 7) if photo.size[0] > photo.size[1] else (7, 5)
        values = vectors(photo.image_id, _WIDTH, rows * columns).reshape(1, _WIDTH, rows, columns)
        part = photo.part.replace("test2014", "test2015")
        files[f"{part}/{photo.image_id}.pth"] = torch_bytes(torch.from_numpy(values))
    write_tgz(path, files)


def write_detector_pickle(world: World, path: Path) -> None:
    """Write a pickle of arrays by name below ``model``,
    as detectron2's model zoo and its converters do."""
    arrays = {name: np.zeros(shape, np.float32) for name, shape in _DETECTOR.items()}
    path.write_bytes(pickle.dumps({"model": arrays, "__author__": "a rehearsal"}, protocol=2))


def write_detector_checkpoint(world: World, path: Path) -> None:
    """Write a checkpoint of torch with tensors below ``model``, as grid-feats-vqa does."""
    import torch

    path.write_bytes(
        torch_bytes({"model": {name: torch.zeros(shape) for name, shape in _DETECTOR.items()}})
    )
