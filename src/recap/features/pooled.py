"""Regions and segments without a detector: the cells of another store's grid, pooled over areas of the picture.

The built-in scenes know what is where: their objects' boxes stand for a detector's regions, their masks for the
segments of a panoptic model. Both are the truth, which no detector gives: a model on them has an advantage that none
has on photographs, and tables say so. For photographs without a detector, ``merged`` takes neighboring cells of the
grid that are alike as one region: it sees what the grid sees, arranged in areas with boxes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from recap.core import checksums
from recap.core.documents import read_json
from recap.core.errors import ConfigError, DataError, FeatureError
from recap.core.hashing import sha256_file
from recap.data.corpus.corpus import Corpus
from recap.data.datasets.scenes.layout import BACKGROUNDS, SHAPES
from recap.data.datasets.scenes.pictures import painted_mask
from recap.features.attributes import describe
from recap.features.extraction import ExtractionJob, extract
from recap.features.origins import FromStore, Origins
from recap.features.records import GRID, REGION, SEGMENT, ImageFeatures
from recap.features.store import FeatureStore
from recap.settings.features import BOXES, PooledFeatures

FAR = 0.5  # cosine distance that a whole picture's edge of distance counts as
KINDS = (*SHAPES, *BACKGROUNDS)  # what `occupancy` tells apart: things, then what is behind them
_CODE = ("recap.features.pooled",)


def extract_pooled(spec: PooledFeatures, job: ExtractionJob) -> None:
    """Write the pooled features of all images of a corpus into one store; an interrupted run is taken up again."""
    if job.corpus is None or job.cells is None:
        raise ConfigError("kind 'pooled' pools the cells of another store: say which with --cells, and --corpus")
    cells, ids = FeatureStore(job.cells, GRID), list(job.wanted(Corpus.read(job.corpus).views(), job.corpus))
    cells.require(ids)
    truth = _truth(spec, job)
    attributes = describe(
        spec,
        weights_sha256=cells.attributes["weights_sha256"],
        made_with=cells.attributes["made_with"],
        cells_hash=cells.made_by(),
    )
    extract(
        spec,
        job,
        lambda images: [pooled_features(spec, image_id, cells, truth) for image_id in images],
        ids=ids,
        origins=FromStore(cells, Origins()),
        load=int,  # nothing is read ahead
        attributes=attributes,
        code=_CODE,
        streams=(REGION if spec.areas in ("boxes", "merged") else SEGMENT,),
        files=[sha256_file(path) for path in job.products],
    )


def pooled_features(
    spec: PooledFeatures, image_id: int, cells: FeatureStore, truth: Mapping[int, Mapping[str, Any]]
) -> ImageFeatures:
    """Return the features of one image; ``truth``: image id -> what boxes.json says of it, empty for merged cells."""
    values = cells.read([image_id])[0][0].double().numpy()
    width, height = (int(edge) for edge in cells.sizes([image_id])[0])
    side = math.isqrt(len(values))
    if side * side != len(values):
        raise FeatureError(
            f"{cells.path}: image id {image_id} has {len(values)} vectors, no square grid; pool the cells of one "
            "picture"
        )
    if spec.areas == "merged":
        found = _merged(values, side, spec, (width, height))
    else:
        if image_id not in truth:
            raise DataError(f"{BOXES}: nothing about image id {image_id}; make the data set again")
        try:
            found = _OF_TRUTH[spec.areas](values, side, truth[image_id], (width, height))
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{BOXES}: image id {image_id} is no scene ({error!r}); make the data set again") from error
    return ImageFeatures(image_id, (width, height), found)


def _merged(cells: np.ndarray, side: int, spec: PooledFeatures, size: tuple[int, int]) -> dict[str, np.ndarray]:
    assert spec.regions is not None
    groups = merged_cells(cells, side, spec.regions)
    boxes = tight_boxes(groups) * np.tile(size, 2) / side
    return {REGION: pool(cells, groups.reshape(len(groups), -1).astype(float)), f"{REGION}/boxes": boxes}


def _boxes(cells: np.ndarray, side: int, scene: Mapping[str, Any], size: tuple[int, int]) -> dict[str, np.ndarray]:
    boxes = np.asarray([item["box"] for item in scene["objects"]], np.float64)
    return {REGION: pool(cells, box_shares(boxes, size, side)), f"{REGION}/boxes": boxes}


def _masks(cells: np.ndarray, side: int, scene: Mapping[str, Any], size: tuple[int, int]) -> dict[str, np.ndarray]:
    things = _painted(scene, size)
    masks = np.concatenate([things, _ground(things)])
    boxes = tight_boxes(masks) * (size[0] / masks.shape[1])
    return {SEGMENT: pool(cells, mask_shares(masks, side)), f"{SEGMENT}/boxes": boxes}


def _occupancy(cells: np.ndarray, side: int, scene: Mapping[str, Any], size: tuple[int, int]) -> dict[str, np.ndarray]:
    things = _painted(scene, size)
    shares = mask_shares(things, side)
    found = np.zeros((side * side, len(KINDS)), np.float32)
    for item, share in zip(scene["objects"], shares, strict=True):
        found[:, KINDS.index(item["shape"])] += share
    ground = len(SHAPES) + BACKGROUNDS.index(scene["background"])
    found[:, ground] = mask_shares(_ground(things), side)[0]
    return {SEGMENT: found}


_OF_TRUTH: dict[str, Callable[..., dict[str, np.ndarray]]] = {"boxes": _boxes, "masks": _masks, "occupancy": _occupancy}


def _painted(scene: Mapping[str, Any], size: tuple[int, int]) -> np.ndarray:
    """Return the masks of a scene's objects, bool [R, edge, edge] on the canvas that it was painted on."""
    return np.stack([painted_mask(item["shape"], tuple(item["drawn"]), size=size[0]) for item in scene["objects"]])


def _ground(things: np.ndarray) -> np.ndarray:
    """Return where no object is, bool [1, edge, edge]."""
    return np.logical_not(things.any(0, keepdims=True))


def _truth(spec: PooledFeatures, job: ExtractionJob) -> dict[int, Mapping[str, Any]]:
    """Return what boxes.json says of each image, for settings that read it."""
    if not spec.products():
        return {}
    path: Path | None = next((path for path in job.products if path.name == BOXES), None)
    if path is None or not path.is_file():
        raise ConfigError(
            f"areas {spec.areas!r} are those of {BOXES}, which the built-in scenes have; say where with --products, "
            "or take areas 'merged'"
        )
    checksums.check(path)
    return {record["image_id"]: record for record in read_json(path)["images"]}


def pool(cells: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Return means of cells [N, C], each weighted by its share in an area [R, N]: float32 [R, C]."""
    weights = shares / shares.sum(1, keepdims=True)
    pooled: np.ndarray = (weights @ cells).astype(np.float32)
    return pooled


def box_shares(boxes: np.ndarray, size: tuple[int, int], side: int) -> np.ndarray:
    """Return how much of each cell a box covers, float64 [R, side * side] in raster order.

    ``boxes`` [R, 4] are left, top, right, bottom in pixels of a picture of width and height ``size``.
    """
    low, high = np.arange(side), np.arange(side) + 1
    columns, rows = (
        np.clip(np.minimum(high, last[:, None]) - np.maximum(low, first[:, None]), 0, 1)
        for first, last in (
            (boxes[:, axis] * side / size[axis], boxes[:, axis + 2] * side / size[axis]) for axis in (0, 1)
        )
    )
    shares: np.ndarray = (rows[:, :, None] * columns[:, None, :]).reshape(len(boxes), -1)
    return shares


def mask_shares(masks: np.ndarray, side: int) -> np.ndarray:
    """Return how much of each cell a mask covers, [R, edge, edge] -> float64 [R, side * side] in raster order."""
    bounds = np.linspace(0, masks.shape[1], side + 1).round().astype(int)
    starts, counts = bounds[:-1], np.diff(bounds)
    sums = np.add.reduceat(np.add.reduceat(masks.astype(np.float64), starts, axis=1), starts, axis=2)
    shares: np.ndarray = (sums / np.outer(counts, counts)).reshape(len(masks), -1)
    return shares


def tight_boxes(masks: np.ndarray) -> np.ndarray:
    """Return the boxes of masks that are not empty, [R, H, W] -> float32 [R, 4] left, top, right, bottom."""
    boxes = []
    for mask in masks:
        rows, columns = mask.any(1).nonzero()[0], mask.any(0).nonzero()[0]
        boxes.append((columns[0], rows[0], columns[-1] + 1, rows[-1] + 1))
    return np.asarray(boxes, np.float32)


def merged_cells(cells: np.ndarray, side: int, count: int) -> np.ndarray:
    """Return connected groups of cells that are alike, bool [R, side, side]; every cell is in exactly one.

    Cells are merged until so many groups are left (average linkage); two cells are as far apart as the cosine of their
    vectors says, plus a little for their distance in the picture. A group that falls into parts that do not touch is
    several, so that there may be more than ``count``. ``cells`` [side * side, C] are in raster order.
    """
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.ndimage import label
    from scipy.spatial.distance import pdist

    rows, columns = np.divmod(np.arange(side * side), side)
    lengths = np.linalg.norm(cells, axis=1, keepdims=True)
    directions = cells / np.maximum(lengths, 1e-12)
    unlike = np.clip(1 - directions @ directions.T, 0, 2)[np.triu_indices(side * side, 1)]
    apart = pdist(np.stack([rows, columns], 1) / side)
    groups = fcluster(linkage(unlike + FAR * apart, "average"), count, "maxclust").reshape(side, side)
    areas: list[np.ndarray] = []
    for group in np.unique(groups):
        parts, number = label(groups == group)
        areas.extend(parts == part for part in range(1, number + 1))
    return np.stack(areas)
