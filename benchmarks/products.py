"""Rates of products by torch's own library and by oneDNN:
the measurements behind `ONEDNN` of `recap.nn.fast`.

`OMP_NUM_THREADS=1 python -m benchmarks.products` prints a JSON line for each kind and size: GFLOP
per CPU second, the best of some alternated rounds. A product of few rows is one of a search, whose
weight oneDNN may have packed before. `ATEN_CPU_CAPABILITY=avx2` changes the class that torch names,
and not what the two libraries do.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import linear

from benchmarks.figures import show
from recap.nn.fast import onednn_product, unbroken

SIZES = [  # rows, inputs and outputs of a layer
    (900, 128, 128),
    (900, 128, 512),
    (300, 512, 512),
    (300, 512, 2048),
    (300, 512, 9488),
    (500, 1024, 1024),
]
FEW_ROWS = [1, 5, 15, 50, 150]
WEIGHTS = [(128, 512), (512, 512), (512, 2048), (512, 9488), (1024, 1024)]


def by_onednn(x: Tensor, weight: Tensor) -> Tensor:
    """Multiply as `recap.nn.fast.multiplied` does where the table names oneDNN."""
    return onednn_product(unbroken(x), unbroken(weight), None)


def rates(ways: dict[str, Callable[[], object]], operations: int, rounds: int) -> dict[str, float]:
    """Return the GFLOP per CPU second of each way, alternated."""
    repeats = max(1, int(2e8 / operations))
    least = dict.fromkeys(ways, float("inf"))
    for way in ways.values():
        way()
    for _ in range(rounds):
        for name, way in ways.items():
            start = time.process_time()
            for _ in range(repeats):
                way()
            least[name] = min(least[name], (time.process_time() - start) / repeats)
    return {name: round(operations / seconds / 1e9, 1) for name, seconds in least.items()}


@torch.no_grad()
def main() -> None:
    """Print a line for each kind and size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    processor = torch.backends.cpu.get_cpu_capability()
    torch.manual_seed(0)
    for rows, inputs, outputs in SIZES:
        x = torch.randn(rows, inputs)
        weight = torch.randn(outputs, inputs)
        grad = torch.randn(rows, outputs)
        kinds = {"forward": (x, weight), "of_rows": (grad, weight.mT), "of_weight": (grad.mT, x.mT)}
        for kind, (left, right) in kinds.items():
            ways = {
                "torch": lambda left=left, right=right: linear(left, right),
                "onednn": lambda left=left, right=right: by_onednn(left, right),
            }
            found = rates(ways, 2 * rows * inputs * outputs, rounds)
            show({"processor": processor, "kind": kind, "size": [rows, inputs, outputs], **found})
    for inputs, outputs in WEIGHTS:
        weight = torch.randn(outputs, inputs)
        packed = torch.ops.mkldnn._reorder_linear_weight(weight, None)
        for rows in FEW_ROWS:
            x = torch.randn(rows, inputs)
            ways = {
                "torch": lambda x=x, weight=weight: linear(x, weight),
                "onednn": lambda x=x, weight=weight: by_onednn(x, weight),
                "packed": lambda x=x, packed=packed: onednn_product(x, packed, None),
            }
            found = rates(ways, 2 * rows * inputs * outputs, rounds)
            show(
                {
                    "processor": processor,
                    "kind": ("few_rows"),
                    "size": [rows, inputs, outputs],
                    **found,
                }
            )


if __name__ == "__main__":
    main()
