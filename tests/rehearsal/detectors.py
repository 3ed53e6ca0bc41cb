"""Miniatures of the weight files of detectors: a few tensors under the published names.

They are fetched, hashed and listed as the released ones; a stand-in does not load them.
"""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np

_NAMES = {
    "backbone.stem.conv1.weight": (4, 3, 7, 7),
    "proposal_generator.rpn_head.conv.weight": (4, 4, 3, 3),
    "roi_heads.box_predictor.cls_score.weight": (5, 8),
    "roi_heads.box_predictor.bbox_pred.weight": (16, 8),
}


def _arrays() -> dict[str, np.ndarray]:
    return {name: np.zeros(shape, np.float32) for name, shape in _NAMES.items()}


def write_pickle(path: Path) -> None:
    """Write a pickle of arrays by name below ``model``, as detectron2's model zoo and its converters do."""
    path.write_bytes(pickle.dumps({"model": _arrays(), "__author__": "a rehearsal"}, protocol=2))


def write_checkpoint(path: Path) -> None:
    """Write a checkpoint of torch with tensors below ``model``, as grid-feats-vqa does."""
    import torch

    torch.save({"model": {name: torch.from_numpy(value) for name, value in _arrays().items()}}, path)
