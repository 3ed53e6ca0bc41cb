"""`precision: auto`: which number type makes a training step quicker on this machine is measured, once per training.

bf16 products take a fifth of float32's time where a processor has units for them; small models may still lose more to
the casts than they gain, so that whole steps are timed. Where the products themselves are slower, often fifty times,
no step is tried.
"""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

import torch

from recap.core.files.json_files import read_json, write_json
from recap.core.hashing import value_hash
from recap.core.log import log
from recap.core.precision import KINDS, ROUNDS, mixed, now, product_seconds, quicker, told
from recap.models.base import Captioner
from recap.settings import RunSpec
from recap.training.batches import Batch
from recap.training.step import Objective

FILE = "precision.json"  # in the state folder


def choose_precision(
    spec: RunSpec, *, model: Captioner, objective: Objective, batch: Batch, device: torch.device, state: Path
) -> str:
    """Return the precision that is quicker here, float32 or bf16; a training that continues keeps what it began with.

    Steps are measured on a batch; neither weights nor random numbers change. The measurement is written to
    `state/precision.json`.
    """
    asked = value_hash(spec.model_dump(mode="json"))
    path = state / FILE
    known = read_json(path) if path.exists() else None
    if known is None or known["asked"] != asked:
        seconds, what = product_seconds(device), "product"
        if quicker(seconds) == "bf16":
            seconds, what = step_seconds(model, objective, batch.to(device), device), "step"
        chosen = quicker(seconds)
        known = {"asked": asked, "chosen": chosen, f"seconds_per_{what}": seconds, "torch": torch.__version__}
        write_json(path, known)
        log.info(f"precision: {chosen}; {told(seconds, what)}")
    return str(known["chosen"])


def measured_precision(state: Path) -> dict[str, Any]:
    """Return what `choose_precision` measured and chose, for the account of the run."""
    return {key: value for key, value in read_json(state / FILE).items() if key != "asked"}


def step_seconds(model: Captioner, objective: Objective, batch: Batch, device: torch.device) -> dict[str, float]:
    """Return the seconds of a loss with its gradient in each precision: CPU time on a CPU, the median of three.

    The first pass of each is not counted; it allocates memory and packs weights.
    """
    found: dict[str, list[float]] = {kind: [] for kind in KINDS}
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        for _ in range(1 + ROUNDS):
            for kind in KINDS:
                since = now(device)
                with mixed(kind, device):
                    loss = objective(batch, 0).loss
                loss.backward()
                found[kind].append(now(device) - since)
                model.zero_grad(set_to_none=True)
    return {kind: median(times[1:]) for kind, times in found.items()}
