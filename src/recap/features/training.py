"""A small training of a backbone before its features are used: to name what boxes hold.

It is to the built-in scenes what a detector trained on Visual Genome's objects and attributes is to
photographs (Anderson et al. 2018, section 3.1): captions are not seen, only boxes with names. Each
cell of the map says what the box over it holds (shape, color, size, texture, or nothing), how many
boxes have their middle in it, and what the background is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from recap.core import checksums
from recap.core.device import mixed, precision_here, select_device
from recap.core.documents import read_json
from recap.core.errors import DataError
from recap.core.files import atomic_path
from recap.core.hashing import derived_seed
from recap.core.log import log, progress
from recap.data.corpus import CORPUS, pictures_of
from recap.features.grid import Backbone
from recap.settings.features import GridFeatures

NAMES = ("shape", "colour", "size", "texture")
MOST = 2  # middles of boxes told apart in one cell


def pretrain(
    *,
    spec: GridFeatures,
    boxes: Path,  # boxes.json of a data set: names and pixel boxes of every picture's objects
    images: Sequence[Path],  # folders or zips with the pictures
    device: str,
    threads: int,
    out: Path,
) -> None:
    """Train the backbone on the boxes of the training pictures; write its weights."""
    settings = spec.pretraining
    target = select_device(device)
    assert settings is not None  # the workflow pretrains no others
    torch.set_num_threads(threads)
    checksums.check(boxes)
    records = _training_records(boxes)
    torch.manual_seed(derived_seed(spec.seed, "pretraining", spec.backbone))
    backbone = Backbone(spec, weights=None, device=target)
    source = pictures_of(boxes.with_name(CORPUS), images)
    squares = [
        backbone.prepare(n, [source.open_rgb(record["file"])]) for n, record in enumerate(records)
    ]
    pictures = torch.from_numpy(np.concatenate([square.pixels for square in squares]))
    names = _names(records)
    grounds = sorted({record["background"] for record in records})
    labels = torch.empty(len(records), len(NAMES) + 2, spec.grid, spec.grid, dtype=torch.long)
    for label, record, square in zip(labels, records, squares, strict=True):
        label[:-1] = cell_labels(record["objects"], square.size, spec.grid, names)
        label[-1] = grounds.index(record["background"])
    labels = labels.to(target)
    with torch.no_grad():
        width = backbone.maps(pictures[:1]).shape[1]
    classes = [*(1 + len(names[name]) for name in NAMES), MOST + 1, len(grounds)]
    heads = nn.ModuleList(nn.Conv2d(width, count, 1) for count in classes).to(target)
    size = min(settings.images_per_batch, len(pictures))
    batches = len(pictures) // size  # the few left over wait for the next epoch's order
    precision = precision_here(settings.precision, target)
    optimizer = torch.optim.AdamW(
        [*backbone.model.parameters(), *heads.parameters()], weight_decay=0.02
    )
    steps = max(2, settings.epochs * batches)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, settings.learning_rate, total_steps=steps
    )
    backbone.model.train()
    for number in range(1, settings.epochs + 1):
        name = f"backbone, epoch {number}"
        order = torch.randperm(len(pictures))[: batches * size].split(size)
        losses = []
        for chosen in progress(order, name=name, unit="batches", total=batches):
            with mixed(precision, target):
                maps = backbone.maps(pictures[chosen])
            parts = [
                cross_entropy(head(maps.float()), labels[chosen, index])
                for index, head in enumerate(heads)
            ]
            loss = torch.stack(parts).sum()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
        log.info(f"{name}: loss {fmean(losses):.4f}")
    weights = {
        name: value.cpu().contiguous() for name, value in backbone.model.state_dict().items()
    }
    with atomic_path(out) as temporary:
        save_file(weights, temporary)


def _training_records(boxes: Path) -> list[dict[str, Any]]:
    """Return what `boxes.json` says of each training picture with objects."""
    images = read_json(boxes)["images"]
    records = [image for image in images if image["split"] == "train" and image["objects"]]
    if not records:
        raise DataError(f"{boxes}: no training picture has boxes; a backbone cannot learn from it")
    return records


def _names(records: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return, for each of NAMES, all that objects have."""
    objects = list(chain.from_iterable(record["objects"] for record in records))
    names = {}
    for name in NAMES:
        names[name] = sorted({item[name] for item in objects})
    return names


def cell_labels(
    objects: Sequence[Mapping[str, Any]],
    size: tuple[int, int],
    grid: int,
    names: Mapping[str, Sequence[str]],
) -> Tensor:
    """Return what each cell shows, [names + 1, grid, grid]: the names of the box over its center (0
    is none), and how many boxes have their middle in it.

    A box too small to cover any center labels the cell of its center.
    """
    labels = torch.zeros(len(NAMES) + 1, grid, grid, dtype=torch.long)
    for item in objects:
        left, top, right, bottom = item["box"]
        columns, column = _covered(left, right, size[0] / grid, grid)
        rows, row = _covered(top, bottom, size[1] / grid, grid)
        for index, name in enumerate(NAMES):
            labels[index, rows, columns] = 1 + names[name].index(item[name])
        labels[-1, row, column] = min(MOST, int(labels[-1, row, column]) + 1)
    return labels


def _covered(low: float, high: float, cell: float, grid: int) -> tuple[slice, int]:
    """Return the cells along one axis whose centers are
    in [low, high), at least that of its middle; and the latter."""
    middle = min(grid - 1, int((low + high) / 2 / cell))
    inside = [place for place in range(grid) if low <= (place + 0.5) * cell < high] or [middle]
    return slice(inside[0], inside[-1] + 1), middle
