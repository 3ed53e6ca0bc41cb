"""Tiny feature files in the layouts that others released."""

import base64
import json
import shutil

import h5py
import numpy as np
import torch

SIZES = {42: (64, 48), 7: (50, 40), 123: (80, 60)}
DIM = 8


def regions(image_id, dim=DIM):
    """Return vectors [n, dim], boxes [n, 4] inside the picture, classes, scores; n depends on the image."""
    rng = np.random.default_rng(image_id)
    rows, (width, height) = 2 + image_id % 3, SIZES[image_id]
    low = rng.uniform(0, 0.5, (rows, 2)) * (width, height)
    boxes = np.concatenate([low, low + rng.uniform(0.1, 0.5, (rows, 2)) * (width, height)], 1).astype(np.float32)
    vectors = rng.normal(size=(rows, dim)).astype(np.float32)
    return vectors, boxes, rng.integers(0, 1600, rows), rng.random(rows).astype(np.float32)


def text(array):
    return base64.b64encode(np.ascontiguousarray(array).tobytes())


def six_columns(image_id, name=None):
    vectors, boxes, _, _ = regions(image_id)
    width, height = SIZES[image_id]
    numbers = [str(value).encode() for value in (name or image_id, width, height, len(vectors))]
    return b"\t".join([*numbers, text(boxes), text(vectors)])


def ten_columns(image_id):
    vectors, boxes, classes, scores = regions(image_id)
    width, height = SIZES[image_id]
    name = f"COCO_train2014_{image_id:012d}".encode()
    known = [text(classes), text(scores), text(classes // 4), text(scores / 2)]
    sides = [str(height).encode(), str(width).encode()]
    return b"\t".join([name, *sides, *known, str(len(vectors)).encode(), text(boxes), text(vectors)])


def write_lines(path, lines):
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def with_box(image_id, dim=2054):
    """Return vectors whose last six numbers say their box, and the boxes in a picture of 1 x 1."""
    vectors, boxes, _, _ = regions(image_id, dim)
    shares = (boxes / (SIZES[image_id] * 2)).astype(np.float32)
    vectors[:, -6:] = np.concatenate([shares, shares[:, 2:] - shares[:, :2]], 1)
    return vectors, shares


def write_vinvl(folder, *, packed=False, dim=2054):
    lines = []
    for image_id in SIZES:
        vectors, _ = with_box(image_id, dim)
        content = [str(len(vectors)).encode(), text(vectors)]
        if packed:
            content = [json.dumps({"num_boxes": len(vectors), "features": content[1].decode()}).encode()]
        lines.append(b"\t".join([str(image_id).encode(), *content]))
    path = write_lines(folder / "features.tsv", lines)
    starts = np.cumsum([0, *(len(line) + 1 for line in lines[:-1])])
    (folder / "features.lineidx").write_text("".join(f"{start}\n" for start in starts))
    return path


def write_hdf5(path, suffixes):
    with h5py.File(path, "w") as file:
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
            for suffix in suffixes:
                file[f"{image_id}_{suffix}"] = content[suffix]
    return path


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
        values = np.arange(3 * 2 * DIM, dtype=np.float32).reshape(3, 2, DIM) + image_id if maps else vectors
        np.savez_compressed(folder / "cocobu_att" / f"{image_id}.npz", feat=values)
        if boxes:
            np.save(folder / "cocobu_box" / f"{image_id}.npy", corners)
    return folder / "cocobu_att"


def write_named(folder, format, names):
    """Write an image for each name in any format, its vectors full of its value; return the source."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    vectors = {name: np.full((2, DIM), value, np.float32) for name, value in names.items()}
    boxes = np.float32([[0, 0, 20, 10]] * 2)
    if format == "m2_hdf5":
        with h5py.File(folder / "m2.hdf5", "w") as file:
            for name, values in vectors.items():
                file[f"{name}_features"], file[f"{name}_boxes"] = values, boxes
        return folder / "m2.hdf5"
    if format.endswith("_tsv"):
        sides = [b"40", b"30"] if format == "bottom_up_tsv" else []
        corners = [text(boxes)] if sides else []
        lines = [b"\t".join([name.encode(), *sides, b"2", *corners, text(v)]) for name, v in vectors.items()]
        starts = np.cumsum([0, *(len(line) + 1 for line in lines[:-1])])
        (folder / "a.lineidx").write_text("".join(f"{start}\n" for start in starts))
        return write_lines(folder / "a.tsv", lines)
    for name, values in vectors.items():
        path = folder / "att" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if format == "npz_folder":
            np.savez(f"{path}.npz", feat=values)
        else:
            torch.save(torch.from_numpy(values.T[None, :, :, None].copy()), f"{path}.pth")
    return folder / "att"
