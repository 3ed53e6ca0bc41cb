"""Counters of a training's progress."""

from __future__ import annotations

import math
from dataclasses import dataclass, field


@dataclass
class Counters:
    """Progress of a training; all of it is in the checkpoint."""

    epoch: int = 0
    batch: int = 0  # batches of this epoch that are done
    step: int = 0
    lr_drops: int = 0  # plateaus met
    epochs_since_best: int = 0  # epochs with a validation
    best: float = -math.inf
    best_epoch: int = -1  # 0: the weights that the stage began with
    seconds: float = 0.0
    sums: dict[str, float] = field(default_factory=dict)  # of this epoch's logged numbers
    history: list[dict[str, float | None]] = field(default_factory=list)
