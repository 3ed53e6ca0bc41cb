"""What each fast path brings: a step or search with one
of them switched off, beside the same with all.

`python -m benchmarks.paths xe.transformer xe.xlan xe.x_transformer --rounds 5` prints a JSON line
for each: CPU seconds of one thread, and the ratio off / on of each path (median and range within
alternated rounds): above 1, it is faster. A path that is no faster on any processor is to be
removed. `--bf16` runs under autocast.
"""

from __future__ import annotations

import argparse
import statistics
import time
from contextlib import nullcontext
from unittest.mock import patch

import torch

from benchmarks.figures import machine, show
from benchmarks.versions import figure
from recap.core.device import mixed
from recap.models.base import Captioner
from recap.models.transformer import TransformerDecoder
from recap.papers.xlan import model as xlan

SWITCHES = {
    "all": lambda: patch("recap.nn.fast._enabled", False),
    "onednn": lambda: patch("recap.nn.fast.ONEDNN", {}),
    "rows without padding": lambda: patch.multiple(TransformerDecoder, packs=False),
    "rows without padding, X-Transformer": lambda: patch.object(
        xlan.XTransformer, "decode_words", Captioner.decode_words
    ),
    "one gradient of a loop's weight": lambda: patch(
        "recap.models.recurrent.deferred_weight_grad", nullcontext
    ),
    "pooling in pieces": lambda: patch.object(xlan, "bilinear_pool", xlan.plain_bilinear_pool),
    "unfused attention in bf16": lambda: patch("recap.nn.attention.fast", lambda: False),
}
MATTERS = {  # the paths that a kind has, beside the first two
    "xlan": ["one gradient of a loop's weight", "pooling in pieces"],
    "x_transformer": ["rows without padding, X-Transformer", "pooling in pieces"],
}


def main() -> None:
    """Print a line for each figure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("figures", nargs="+", help="as for `benchmarks.versions`")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--bf16", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for name in arguments.figures:
        run = figure(name)
        paths = ["all", "onednn", *MATTERS.get(name.split(".")[1], ["rows without padding"])]
        if arguments.bf16:
            paths.append("unfused attention in bf16")
        times = []
        for _ in range(arguments.rounds + 1):
            row = {}
            for path in ["on", *paths]:
                switch = SWITCHES[path]() if path != "on" else nullcontext()
                with switch, mixed("bf16" if arguments.bf16 else "float32", torch.device("cpu")):
                    start = time.process_time()
                    run()
                    row[path] = time.process_time() - start
            times.append(row)
        found: dict[str, object] = {
            "name": name,
            "processor": torch.backends.cpu.get_cpu_capability(),
            **machine(),
        }
        found["cpu_seconds"] = round(statistics.median(row["on"] for row in times[1:]), 3)
        for path in paths:
            ratios = sorted(row[path] / row["on"] for row in times[1:])
            found[path] = [round(x, 2) for x in (statistics.median(ratios), ratios[0], ratios[-1])]
        show(found)


if __name__ == "__main__":
    main()
