"""``make bench``: one JSON line a figure.

``python -m benchmarks.run xe.transformer --rounds 3`` measures one alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial

from benchmarks import (
    acf,
    attention,
    beam,
    beside,
    features,
    m2,
    reward,
    stepwise,
    train,
    visual_gpt,
)
from benchmarks.figures import Case, machine, measure, seconds, show
from benchmarks.shapes import models

CASES: dict[str, Callable[[], Case]] = {
    "reward.cider_d": reward.cider_d,
    "evaluation": reward.evaluation,
    "beam.transformer": beam.transformer,
    "beam.transformer.5": partial(beam.transformer, images=5),
    "beam.transformer.cached": beam.transformer_cached,
    "beam.transformer.cached.5": partial(beam.transformer_cached, images=5),
    "attention.bf16": attention.bf16,
    "xe.transformer": train.xe,
    "scst.transformer": train.scst,
    "scst.transformer.cached": train.scst_cached,
    "beam.m2": m2.beam,
    "xe.m2": m2.xe,
    "scst.m2": m2.scst,
    "xe.visualgpt": visual_gpt.xe,
    "beam.visualgpt": visual_gpt.beam,
    "acf.matrix": acf.matrix,
    "acf.xe": acf.xe,
    "acf.beam": acf.beam,
    "store.random_batch": features.random_batch,
}
for _kind in stepwise.MODELS:
    CASES |= {
        f"{what.__name__}.{_kind}": partial(what, _kind)
        for what in (stepwise.xe, stepwise.scst, stepwise.beam)
    }
for _kind in beside.BESIDE:
    CASES |= {
        f"xe.{_kind}": partial(beside.xe, _kind),
        f"beam.{_kind}": partial(beside.search, _kind),
    }

CURVES = {
    "images": (1, 5, 10, 20),
    "beam": (1, 3, 5, 10),
    "length": (5, 10, 20, 40),
    "vocabulary": (1000, 3000, 9488, 30000),
}


def curves() -> Iterator[dict[str, object]]:
    """Seconds of one beam search as batch, beam, length and vocabulary grow from the common
    shapes."""
    common = models("transformer")[0].eval()
    for name, values in CURVES.items():
        for value in values:
            if name == "vocabulary":
                run = beam.search(models("transformer", words=value)[0].eval())
            else:
                run = beam.search(common, **{name: value})
            run()
            yield {
                "name": f"curve.beam.{name}",
                name: value,
                "seconds": round(min(seconds(run) for _ in range(2)), 4),
            }


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "names", nargs="*", choices=[[], *CASES, "curves"], help="which figures; default: all"
    )
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    names = arguments.names or [*CASES, "curves"]
    for name in names:
        if name == "curves":
            for point in curves():
                show(point | machine())
        else:
            show(measure(CASES[name](), arguments.rounds))


if __name__ == "__main__":
    main()
