"""The folder of a trained run: what it was made from, its weights, its curve and its account."""

from __future__ import annotations

import csv
import io
import math
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import yaml

from recap.core.checksums import record
from recap.core.documents import write_json
from recap.core.files import atomic_path, write_text
from recap.core.hashing import commit, value_hash
from recap.models.base import Captioner
from recap.runs.weights import read_weights
from recap.settings import Execution


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


def write_run(
    out: Path,
    *,
    made_from: dict[str, Any],
    execution: Execution,
    counters: Counters,
    weights: Path,
    model: Captioner,
    device: torch.device,
) -> None:
    """Write `config.yaml`, `history.csv`, `model.safetensors` and `training.json`, the last when all others are there.

    All but the weights, which verify themselves, are listed with their hashes in `SHA256SUMS`.

    Args:
        out: the folder.
        made_from: the spec and the hashes of all that went in.
        execution, device: how and where it was computed.
        counters: where training ended, and its curve.
        weights: file of the best weights.
        model: whose parameters are counted.
    """
    read_weights(weights)
    spec = made_from["spec"]
    write_text(out / "config.yaml", yaml.safe_dump(made_from, sort_keys=True))
    write_text(out / "history.csv", _curve(counters.history))
    with atomic_path(out / "model.safetensors") as temporary:
        shutil.copyfile(weights, temporary)
    names = ("dataset", "subset", "features", "model", "recipe", "seed")
    write_json(
        out / "training.json",
        {
            **{name: spec[name] for name in names},
            "stage": made_from["stage"],
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            "epochs": counters.epoch,
            "steps": counters.step,
            "best_epoch": counters.best_epoch,
            "best_val_cider_d": counters.best,
            "seconds": round(counters.seconds, 1),
            "device": str(device),
            **execution.model_dump(mode="json", exclude={"device", "nodes", "extraction_parts", "keep_state"}),
            "feature_hash": made_from["feature_hash"],
            "config_hash": value_hash(spec),
            "git_commit": commit(),
            "torch": torch.__version__,
        },
    )
    record(*(out / name for name in ("config.yaml", "history.csv", "training.json")))


def _curve(history: list[dict[str, float | None]]) -> str:
    """Return one CSV line per epoch; of an epoch without validation, or before the first step, a cell is empty."""
    rows = io.StringIO()
    writer = csv.DictWriter(rows, max(history, key=len), lineterminator="\n")
    writer.writeheader()
    # Floats have enough digits to plot and compare; integers stay as they are.
    writer.writerows({k: f"{v:.8g}" if isinstance(v, float) else v for k, v in line.items()} for line in history)
    return rows.getvalue()
