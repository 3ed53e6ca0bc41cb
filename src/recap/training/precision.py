"""`precision: auto`: which number type makes a training step quicker on this machine is measured, once per training.

bf16 products take a fifth of float32's time where a processor has units for them, and several times as long where it
has none; small models lose more to the casts than they gain.
"""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median
from typing import Any

import torch

from recap.core.config import RunSpec
from recap.core.files.atomic import read_json, write_json
from recap.core.hashing import value_hash
from recap.core.log import log
from recap.models.base import Captioner
from recap.training.batches import Batch
from recap.training.step import Objective

FILE = "precision.json"  # in the state folder
GAIN = 1.1  # bf16 is chosen if float32 takes at least so many times as long
ROUNDS = 3


def choose_precision(
    spec: RunSpec, *, model: Captioner, objective: Objective, batch: Batch, device: torch.device, state: Path
) -> RunSpec:
    """Return the spec with the precision that is quicker here; a training that continues keeps what it began with.

    The measurement is written to `state/precision.json`.

    Args:
        spec: its stage asks for `precision: auto`.
        model, objective, device: of the training.
        batch: on which steps are measured; neither weights nor random numbers change.
        state: folder of the resumable state.
    """
    asked = value_hash(spec.model_dump(mode="json"))
    path = state / FILE
    known = read_json(path) if path.exists() else None
    if known is None or known["asked"] != asked:
        seconds = step_seconds(model, objective, batch.to(device), device)
        chosen = "bf16" if seconds["float32"] >= GAIN * seconds["bf16"] else "float32"
        known = {"asked": asked, "chosen": chosen, "seconds_per_step": seconds, "torch": torch.__version__}
        write_json(path, known)
        log.info(f"precision: {chosen}; {', '.join(f'{kind} {value:.3g} s a step' for kind, value in seconds.items())}")
    settings = spec.stage_settings.model_copy(update={"precision": known["chosen"]})
    return spec.model_copy(update={"stage_settings": settings})


def measured_precision(state: Path) -> dict[str, Any]:
    """Return what `choose_precision` measured and chose, for the account of the run."""
    return {key: value for key, value in read_json(state / FILE).items() if key != "asked"}


def step_seconds(model: Captioner, objective: Objective, batch: Batch, device: torch.device) -> dict[str, float]:
    """Return the seconds of a loss with its gradient in each precision: CPU time on a CPU, the median of three.

    The first pass of each is not counted; it allocates memory and packs weights.
    """
    kinds = ("float32", "bf16")
    found: dict[str, list[float]] = {kind: [] for kind in kinds}
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        for _ in range(1 + ROUNDS):
            for kind in kinds:
                since = _now(device)
                with torch.autocast(device.type, torch.bfloat16, enabled=kind == "bf16"):
                    loss = objective(batch, 0).loss
                loss.backward()
                found[kind].append(_now(device) - since)
                model.zero_grad(set_to_none=True)
    return {kind: median(times[1:]) for kind, times in found.items()}


def _now(device: torch.device) -> float:
    """Return CPU time in seconds, which other programs hardly lengthen, or on a GPU the time when its work is done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        return time.perf_counter()
    return time.process_time()
