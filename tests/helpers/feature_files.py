"""Tiny feature files in the layouts that others released."""

import shutil

import numpy as np
import torch

from rehearsal.regions import bottom_up_line, fields, line_index, shares, vinvl_line
from rehearsal.regions import encoded as text
from rehearsal.regions import lines as ended
from rehearsal.regions import write_hdf5 as write_arrays

SIZES = {42: (64, 48), 7: (50, 40), 123: (80, 60)}
DIM = 8


def regions(image_id, dim=DIM):
    """Return vectors [n, dim], boxes [n, 4] inside the picture, classes, scores.

    N depends on the image.
    """
    rng = np.random.default_rng(image_id)
    rows, (width, height) = 2 + image_id % 3, SIZES[image_id]
    low = rng.uniform(0, 0.5, (rows, 2)) * (width, height)
    boxes = np.concatenate(
        [low, low + rng.uniform(0.1, 0.5, (rows, 2)) * (width, height)], 1
    ).astype(np.float32)
    vectors = rng.normal(size=(rows, dim)).astype(np.float32)
    return vectors, boxes, rng.integers(0, 1600, rows), rng.random(rows).astype(np.float32)


def six_columns(image_id, name=None):
    vectors, boxes, _, _ = regions(image_id)
    return bottom_up_line(name or image_id, SIZES[image_id], boxes, vectors)


def ten_columns(image_id):
    vectors, boxes, classes, scores = regions(image_id)
    width, height = SIZES[image_id]
    known = [text(classes), text(scores), text(classes // 4), text(scores / 2)]
    return fields(
        f"COCO_train2014_{image_id:012d}",
        height,
        width,
        *known,
        len(vectors),
        text(boxes),
        text(vectors),
    )


def write_lines(path, lines):
    path.write_bytes(ended(lines))
    return path


def with_box(image_id, dim=2054):
    """Return vectors whose last six numbers say their box, and the boxes in a picture of 1 x 1."""
    vectors, boxes, _, _ = regions(image_id, dim)
    vectors[:, -6:] = shares(boxes, SIZES[image_id])
    return vectors, vectors[:, -6:-2]


def write_vinvl(folder, *, packed=False, dim=2054):
    return write_indexed(
        folder, [vinvl_line(each, with_box(each, dim)[0], packed=packed) for each in SIZES]
    )


def write_indexed(folder, lines):
    """Write lines with the index beside them, and return the path of the lines."""
    (folder / "features.lineidx").write_text(line_index(lines))
    return write_lines(folder / "features.tsv", lines)


def write_hdf5(path, suffixes):
    arrays = {}
    for image_id, (width, height) in SIZES.items():
        vectors, boxes, _, scores = regions(image_id)
        content = {
            "features": vectors,
            "boxes": boxes,
            "cls_prob": np.stack([scores, 1 - scores], 1),
            "grids": np.full((49, DIM), image_id, np.float32),
            "size": np.array([[height, width]]),
            "mask": np.ones((len(vectors), 49), np.uint8),
        }
        arrays |= {f"{image_id}_{suffix}": content[suffix] for suffix in suffixes}
    return write_arrays(path, arrays)


def write_pth(folder, height=5, width=9):
    folder.mkdir()
    for image_id in SIZES:
        torch.manual_seed(image_id)
        torch.save(torch.rand(1, DIM, height, width), folder / f"{image_id}.pth")
    return folder


def write_npz(folder, *, boxes=True, maps=False):
    (folder / "cocobu_att").mkdir(parents=True)
    if boxes:
        (folder / "cocobu_box").mkdir()
    for image_id in SIZES:
        vectors, corners, _, _ = regions(image_id)
        values = (
            np.arange(3 * 2 * DIM, dtype=np.float32).reshape(3, 2, DIM) + image_id
            if maps
            else vectors
        )
        np.savez_compressed(folder / "cocobu_att" / f"{image_id}.npz", feat=values)
        if boxes:
            np.save(folder / "cocobu_box" / f"{image_id}.npy", corners)
    return folder / "cocobu_att"


def write_named(folder, format, names):
    """Write an image for each name in any format, its vectors full of its value.

    Return the source.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    vectors = {name: np.full((2, DIM), value, np.float32) for name, value in names.items()}
    boxes = np.float32([[0, 0, 20, 10]] * 2)
    if format == "m2_hdf5":
        arrays = {f"{name}_features": values for name, values in vectors.items()}
        return write_arrays(
            folder / "m2.hdf5", arrays | {f"{name}_boxes": boxes for name in vectors}
        )
    if format == "bottom_up_tsv":
        lines = [bottom_up_line(name, (40, 30), boxes, values) for name, values in vectors.items()]
        return write_lines(folder / "features.tsv", lines)
    if format == "vinvl_tsv":
        return write_indexed(folder, [vinvl_line(name, values) for name, values in vectors.items()])
    for name, values in vectors.items():
        path = folder / "att" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if format == "npz_folder":
            np.savez(f"{path}.npz", feat=values)
        else:
            torch.save(torch.from_numpy(values.T[None, :, :, None].copy()), f"{path}.pth")
    return folder / "att"
