"""Trains a backbone to name what the boxes of training pictures hold, before its features are used.

This is to the built-in scenes what a detector trained on Visual Genome's objects and attributes is to photographs
(Anderson et al. 2018, section 3.1): captions are not seen, only boxes with names. Each cell of the map says what the
box over it holds (shape, color, size, texture, or nothing), how many boxes have their middle in it, and what the
background is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from recap.core import checksums
from recap.core.device import mixed, precision_here, select_device
from recap.core.documents import read_json
from recap.core.errors import ConfigError, DataError
from recap.core.files import atomic_path
from recap.core.hashing import derived_seed
from recap.core.log import log, progress
from recap.data.files.images import ImageSource
from recap.features.grid import Backbone
from recap.features.pictures import decode
from recap.settings.features import GridFeatures

NAMES = ("shape", "colour", "size", "texture")
MOST = 2  # middles of boxes told apart in one cell


def pretrain_backbone(
    *, spec: GridFeatures, boxes: Path, images: Sequence[Path], device: str, threads: int, out: Path
) -> None:
    """Train the backbone on the boxes of the training pictures and write its weights as safetensors.

    Args:
        spec: backbone, stage, grid, and `pretraining`.
        boxes: boxes.json of a data set: names and pixel boxes of every picture's objects.
        images: folders or zips with the pictures.
        device: auto, cpu or cuda.
        threads: CPU threads.
        out: the weights.
    """
    if spec.weights != "boxes":
        raise ConfigError(
            f"weights: {spec.weights!r} are not trained; set `weights: boxes` and `pretraining` to train a backbone"
        )
    target = select_device(device)
    torch.set_num_threads(threads)
    checksums.check(boxes)
    records = [record for record in read_json(boxes)["images"] if record["split"] == "train" and record["objects"]]
    if not records:
        raise DataError(f"{boxes}: no training picture has boxes; a backbone cannot learn from it")
    torch.manual_seed(derived_seed(spec.seed, "pretraining", spec.backbone))
    backbone = Backbone(spec, weights=None, device=target)
    sizes, pictures = decode(
        ImageSource(images), [record["file"] for record in records], edge=spec.image_size, resample=backbone.resample
    )
    known = {name: sorted({item[name] for record in records for item in record["objects"]}) for name in NAMES}
    grounds = sorted({record["background"] for record in records})
    objects = [cell_labels(r["objects"], size, spec.grid, known) for r, size in zip(records, sizes, strict=True)]
    ground = torch.tensor([grounds.index(record["background"]) for record in records])
    behind = ground[:, None, None, None].expand(-1, 1, spec.grid, spec.grid)
    labels = torch.cat([torch.stack(objects), behind], 1)  # [R, labels a cell, grid, grid]
    _fit(backbone, pictures, labels.to(target), [*(1 + len(known[name]) for name in NAMES), MOST + 1, len(grounds)])
    weights = {name: value.cpu().contiguous() for name, value in backbone.model.state_dict().items()}
    with atomic_path(out) as temporary:
        save_file(weights, temporary)


def cell_labels(
    objects: Sequence[Mapping[str, Any]], size: tuple[int, int], grid: int, known: Mapping[str, Sequence[str]]
) -> Tensor:
    """Return what each cell shows, [names + 1, grid, grid]: the names of the box over its center (0 is none), and how
    many boxes have their middle in it.

    A box too small to cover any center labels the cell of its center.
    """
    labels = torch.zeros(len(NAMES) + 1, grid, grid, dtype=torch.long)
    for item in objects:
        left, top, right, bottom = item["box"]
        columns = _covered(left, right, size[0] / grid, grid)
        rows = _covered(top, bottom, size[1] / grid, grid)
        for index, name in enumerate(NAMES):
            labels[index, rows, columns] = 1 + known[name].index(item[name])
        middle = _middle(top, bottom, size[1] / grid, grid), _middle(left, right, size[0] / grid, grid)
        labels[-1, *middle] = min(MOST, int(labels[-1, *middle]) + 1)
    return labels


def _middle(low: float, high: float, cell: float, grid: int) -> int:
    """Return the cell along one axis that holds the middle of [low, high)."""
    return min(grid - 1, int((low + high) / 2 / cell))


def _covered(low: float, high: float, cell: float, grid: int) -> slice:
    """Return the cells along one axis whose centers are in [low, high), or the one that holds the middle."""
    inside = [place for place in range(grid) if low <= (place + 0.5) * cell < high]
    if inside:
        return slice(inside[0], inside[-1] + 1)
    middle = _middle(low, high, cell, grid)
    return slice(middle, middle + 1)


def _fit(backbone: Backbone, pictures: Tensor, labels: Tensor, classes: Sequence[int]) -> None:
    """Train model and heads on pictures uint8 [R, edge, edge, 3] and labels [R, heads, grid, grid]."""
    settings = backbone.spec.pretraining
    assert settings is not None
    with torch.no_grad():
        width = backbone.maps(pictures[:1]).shape[1]
    heads = nn.ModuleList(nn.Conv2d(width, count, 1) for count in classes).to(backbone.device)
    parameters = [*backbone.model.parameters(), *heads.parameters()]
    optimizer = torch.optim.AdamW(parameters, weight_decay=0.02)
    size = min(settings.images_per_batch, len(pictures))
    batches = len(pictures) // size  # the few left over wait for the next epoch's order
    steps = settings.epochs * batches
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, settings.learning_rate, total_steps=max(steps, 2))
    precision = precision_here(settings.precision, backbone.device)
    backbone.model.train()
    for epoch in range(settings.epochs):
        total = 0.0
        order = torch.randperm(len(pictures))[: batches * size].split(size)
        for chosen in progress(order, name=f"backbone, epoch {epoch + 1}", unit="batches"):
            with mixed(precision, backbone.device):
                maps = backbone.maps(pictures[chosen])
            losses = [cross_entropy(head(maps.float()), labels[chosen, index]) for index, head in enumerate(heads)]
            loss = torch.stack(losses).sum()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item()
        log.info(f"backbone, epoch {epoch + 1}: loss {total / batches:.4f}")
    backbone.model.eval()
