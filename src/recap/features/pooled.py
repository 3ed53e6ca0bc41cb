"""Regions and segments without a detector:
the cells of another store's grid, pooled over areas of the picture.

The built-in scenes know what is where: their objects' boxes stand for a detector's regions, their
masks for the segments of a panoptic model. Both are the truth, which no detector gives: a model on
them has an advantage that none has on photographs, and tables say so. For photographs without a
detector, ``merged`` takes neighboring cells of the grid that are alike as one region: it sees what
the grid sees, arranged in areas with boxes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

import numpy as np
from PIL import Image

from recap.core import checksums
from recap.core.documents import read_json
from recap.core.errors import ConfigError, FeatureError
from recap.core.hashing import sha256_file
from recap.data.corpus import Corpus
from recap.data.datasets.scene_captions import BACKGROUNDS, SHAPES
from recap.data.datasets.scenes import painted_mask
from recap.features.extraction import ExtractionJob, describe, write
from recap.features.records import GRID, REGION, SEGMENT, ImageFeatures
from recap.features.store import FeatureStore
from recap.settings.features import BOXES, PooledFeatures

KINDS = (*SHAPES, *BACKGROUNDS)  # what `occupancy` tells apart: things, then what is behind them
FAR = 0.5  # cosine distance that a whole picture's edge of distance counts as


def extract_pooled(spec: PooledFeatures, job: ExtractionJob) -> None:
    """Write the store."""
    if job.corpus is None or job.cells is None:
        raise ConfigError(
            "kind 'pooled' pools the cells of another store: say which with --cells, and --corpus"
        )
    cells = FeatureStore(job.cells, GRID)
    ids = list(job.wanted(Corpus.read(job.corpus).views(), job.corpus))
    cells.require(ids)
    truth = _truth(spec, job)

    def features(groups: list[list[int]]) -> Iterator[ImageFeatures]:
        return (
            pooled_features(spec, image_id, cells, truth)
            for image_id in chain.from_iterable(groups)
        )

    own = {name: cells.attributes[name] for name in ("weights_sha256", "made_with")}
    write(
        spec,
        job,
        features,
        ids=ids,
        attributes=describe(spec, cells_hash=cells.extractor_hash(), **own),
        streams=(REGION if spec.areas in ("boxes", "merged") else SEGMENT,),
        files=lambda image_id: [cells.path],
        made_from=[sha256_file(path) for path in job.products],
    )


def _truth(spec: PooledFeatures, job: ExtractionJob) -> dict[int, Mapping[str, Any]]:
    """Return what boxes.json says of each image, for settings that read it."""
    if not spec.products():
        return {}
    path = next((path for path in job.products if path.name == BOXES), None)
    if path is None:
        raise ConfigError(
            f"areas {spec.areas!r} are those of {BOXES}, which the built-in scenes have; say where "
            "with --products, or take areas 'merged'"
        )
    checksums.check(path)
    return {record["image_id"]: record for record in read_json(path)["images"]}


def pooled_features(
    spec: PooledFeatures, image_id: int, cells: FeatureStore, truth: Mapping[int, Mapping[str, Any]]
) -> ImageFeatures:
    """Return the features of one image.

    ``truth`` is what boxes.json says of each, empty for merged cells.
    """
    values = cells.read([image_id])[0][0].double().numpy()
    width, height = cells.sizes([image_id])[0].tolist()
    side = math.isqrt(len(values))
    if side * side != len(values):
        raise FeatureError(
            f"{cells.path}: image id {image_id} has {len(values)} vectors, no square grid; pool "
            "the cells of one picture"
        )
    if spec.areas == "merged":
        assert spec.regions is not None
        groups = merged_cells(values, side, spec.regions)
        boxes = tight_boxes(groups) * np.tile((width, height), 2) / side
        arrays = {
            REGION: pool(values, groups.reshape(len(groups), -1).astype(float)),
            f"{REGION}/boxes": boxes,
        }
    else:
        arrays = _true_areas(spec.areas, values, side, truth[image_id], (width, height))
    return ImageFeatures(image_id, (width, height), arrays)


def _true_areas(
    areas: str, cells: np.ndarray, side: int, scene: Mapping[str, Any], size: tuple[int, int]
) -> dict[str, np.ndarray]:
    """Return what areas of boxes.json give of cells [side * side, C] of a picture."""
    objects = scene["objects"]
    if areas == "boxes":
        boxes = np.asarray([item["box"] for item in objects], np.float64)
        return {REGION: pool(cells, box_shares(boxes, size, side)), f"{REGION}/boxes": boxes}
    # On the canvas that the scene was painted on,
    # bool [R, edge, edge]; the ground is where no object is.
    things = np.stack(
        [painted_mask(item["shape"], tuple(item["drawn"]), size=size[0]) for item in objects]
    )
    masks = np.concatenate([things, ~things.any(0, keepdims=True)])
    shares = mask_shares(masks, side)
    if areas == "masks":
        boxes = tight_boxes(masks) * (size[0] / masks.shape[1])
        return {SEGMENT: pool(cells, shares), f"{SEGMENT}/boxes": boxes}
    occupancy = np.zeros((side * side, len(KINDS)), np.float32)
    for item, share in zip(objects, shares[:-1], strict=True):
        occupancy[:, KINDS.index(item["shape"])] += share
    occupancy[:, len(SHAPES) + BACKGROUNDS.index(scene["background"])] = shares[-1]
    return {SEGMENT: occupancy}


def pool(cells: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Return means of cells [N, C], weighted by their share in an area [R, N]: float32 [R, C]."""
    weights = shares / shares.sum(1, keepdims=True)
    return (weights @ cells).astype(np.float32)


def merged_cells(cells: np.ndarray, side: int, count: int) -> np.ndarray:
    """Return connected groups of cells [side * side, C] that are alike,
    bool [R, side, side]; each cell is in one.

    Cells are merged until ``count`` groups are left (average linkage); two cells are as far apart
    as the cosine of their vectors says, plus a little for their distance in the picture. A group
    that falls into parts that do not touch is several.
    """
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.ndimage import label
    from scipy.spatial.distance import pdist

    rows, columns = np.divmod(np.arange(side * side), side)
    lengths = np.linalg.norm(cells, axis=1, keepdims=True)
    directions = cells / np.maximum(lengths, 1e-12)
    unlike = np.clip(1 - directions @ directions.T, 0, 2)[np.triu_indices(side * side, 1)]
    apart = pdist(np.stack([rows, columns], 1) / side)
    groups = fcluster(linkage(unlike + FAR * apart, "average"), count, "maxclust").reshape(
        side, side
    )
    connected: list[np.ndarray] = []
    for group in np.unique(groups):
        parts, number = label(groups == group)
        connected.extend(parts == part for part in range(1, number + 1))
    return np.stack(connected)


def tight_box(mask: np.ndarray) -> tuple[int, int, int, int]:
    """Return left, top, right and bottom of a mask [H, W] that is not empty."""
    box = Image.fromarray(mask.astype(np.uint8)).getbbox()
    assert box is not None
    return box


def tight_boxes(masks: np.ndarray) -> np.ndarray:
    """Return the boxes of masks that are not empty, [R, H, W] -> float32 [R, 4]."""
    return np.asarray([tight_box(mask) for mask in masks], np.float32)


def box_shares(boxes: np.ndarray, size: tuple[int, int], side: int) -> np.ndarray:
    """Return the share of each cell that boxes [R, 4] cover, float64 [R, side * side]."""
    columns = _line_shares(boxes[:, [0, 2]] * side / size[0], side)
    rows = _line_shares(boxes[:, [1, 3]] * side / size[1], side)
    return (rows[:, :, None] * columns[:, None, :]).reshape(len(boxes), -1)


def _line_shares(spans: np.ndarray, side: int) -> np.ndarray:
    """Return the share of each place of a line that spans [R, 2] cover, [R, side]."""
    places = np.arange(side)
    last = np.minimum(places + 1, spans[:, 1:])
    first = np.maximum(places, spans[:, :1])
    return np.clip(last - first, 0, 1)


def mask_shares(masks: np.ndarray, side: int) -> np.ndarray:
    """Return the share of each cell under masks, [R, edge, edge] -> float64 [R, side * side]."""
    bounds = np.linspace(0, masks.shape[1], side + 1).round().astype(int)
    starts = bounds[:-1]
    counts = np.diff(bounds)
    sums = np.add.reduceat(
        np.add.reduceat(masks.astype(np.float64), starts, axis=1), starts, axis=2
    )
    return (sums / np.outer(counts, counts)).reshape(len(masks), -1)
