"""How often a claim gets a verdict where there is nothing to tell: simulated from real scores.

    python -m benchmarks.claim_verdicts
    results/demo/scores/scenes_small/full/scenes_grid/{transformer,acf}@scenes_demo

Rows of equal true scores are drawn as `benchmarks.table_marks` draws tables: images with
replacement, with what they and the rest of a score really are, and trainings from a normal
distribution. Claims of four forms are then judged by the function that judges those of the papers:
a row is better than another, in one metric and in all; it is better than the best of three; and its
score is a printed number, which it truly is. Each verdict but "cannot be told" is false, of a
printed number "does not hold" alone.

A line of JSON for each number of seeds gives the share of false verdicts of each form.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.table_marks import Components, read, take_apart
from recap.settings.tables import Check
from recap.statistics.claims import FAILS, HOLDS, ComparisonVerdict, judge, verdict_of
from recap.statistics.comparison import Sample, compare_rows

BETTER = {"table": "t", "row": "own", "against": "other"}
REACHED = {"table": "t", "row": "own", "printed": 0.0, "sign": "equal"}


def draw_rows(
    parts: Components, *, rows: int, seeds: int, random: np.random.Generator
) -> np.ndarray:
    """Draw the scores ``[rows, seeds, I, C]`` of rows of equal true scores."""
    count = len(parts.images)
    chosen = random.integers(count, size=count)
    trainings = random.multivariate_normal(
        np.zeros(len(parts.metrics)), parts.trainings, size=(rows, seeds)
    )
    # The difference of two rows has the variance over images of the difference that was measured.
    favour = parts.images[chosen] * random.choice([-0.5, 0.5], size=(rows, count, 1)) * 2**0.5
    rest = parts.rest[chosen, random.integers(parts.rest.shape[1], size=(rows, seeds, count))]
    return np.asarray(trainings[:, :, None] + favour[:, None] + rest)


def verdict(own: np.ndarray, others: Sequence[np.ndarray | None], *, within: float = 0.0) -> str:
    """Return the verdict on a claim about scores ``[seeds, I]``: one comparison each.

    None stands for a true number.
    """
    return verdict_of(judge([_compared(own, other, within) for other in others]))


def _compared(own: np.ndarray, other: np.ndarray | None, within: float) -> ComparisonVerdict:
    fixed = np.zeros((2, own.shape[1]))
    base = fixed if other is None else other
    settings: dict[str, Any] = BETTER if other is not None else {**REACHED, "within": within}
    first, second = (Sample(each.mean(axis=0), each.mean(axis=1).tolist()) for each in (base, own))
    tests = compare_rows("CIDEr", first, second)
    return ComparisonVerdict(Check(**settings), "t", "CIDEr", "other", tests=tests)


def false_verdicts(
    parts: Components, *, seeds: int, claims: int, within: float, random: np.random.Generator
) -> dict[str, float]:
    """Return the share of false verdicts of each form of claim.

    Args:
        parts: what scores are made of.
        seeds: runs per row.
        claims: how many to draw of each form.
        within: tolerance of a printed number, in percent points.
        random: source of chance.
    """
    counts = dict.fromkeys(("one metric", "all metrics", "best of three", "printed number"), 0)
    metrics = range(len(parts.metrics))
    for _ in range(claims):
        own, *others = draw_rows(parts, rows=4, seeds=seeds, random=random)
        told = {
            "one metric": verdict(own[..., 0], [others[0][..., 0]]),
            "best of three": verdict(own[..., 0], [other[..., 0] for other in others]),
            "printed number": verdict(own[..., 0], [None], within=within),
        }
        every = [_compared(own[..., m], others[0][..., m], 0.0) for m in metrics]
        told["all metrics"] = verdict_of(judge(every))
        for form, said in told.items():
            counts[form] += said == FAILS or (said == HOLDS and form != "printed number")
    return {form: count / claims for form, count in counts.items()}


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", type=Path, nargs="+", help="folders with seed-<n>/<stage>")
    parser.add_argument("--stage", default="scst")
    parser.add_argument(
        "--metrics", nargs="+", default=["CIDEr", "BLEU-1", "BLEU-4", "METEOR", "ROUGE-L"]
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[2, 3, 5])
    parser.add_argument("--claims", type=int, default=1000)
    parser.add_argument(
        "--spread", type=float, default=1.0, help=("factor on what trainings differ by")
    )
    parser.add_argument(
        "--within",
        type=float,
        default=1.0,
        help=("tolerance of a printed number, in percent points"),
    )
    a = parser.parse_args()
    parts = take_apart(read(a.models, a.metrics, a.stage), a.metrics)
    parts = Components(parts.metrics, parts.trainings * a.spread**2, parts.images, parts.rest)
    for seeds in a.seeds:
        random = np.random.default_rng(seeds)
        shares = false_verdicts(parts, seeds=seeds, claims=a.claims, within=a.within, random=random)
        print(
            json.dumps({"seeds": seeds, "claims": a.claims, "spread": a.spread, **shares}),
            flush=True,
        )


if __name__ == "__main__":
    main()
