"""How often a table marks a difference that is not there,
and how often one that is: simulated from real scores.

    python -m benchmarks.table_marks
    results/demo/scores/scenes/full/scenes_grid/{transformer,zodiac}@scenes

Each folder holds the runs of one model (`seed-<n>/<stage>/scores.test.parquet`): two models, two
seeds or more. Their scores per image are taken apart into what a training adds to a model on every
image, what an image adds to the difference of the two models, and the rest. New tables are then
drawn: images with replacement, with what they and their rest really are, and trainings from a
normal distribution (of several metrics together, with their covariance). Every drawn table goes
through the functions that make the project's tables, under each of four rules: p below 0.05 over
the images, over the runs, in each of these two, and the mark of the tables (in each, and in the
joint test).

A line of JSON for each number of seeds and size of the true difference says which share of the
tables marks a metric that stands alone ("one"), and which marks any metric of a whole table with
Holm's correction ("any").
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from recap.statistics.comparison import SIGNIFICANT, UNITS, Sample, compare_rows, correct
from recap.statistics.results import Comparison
from recap.statistics.scores import read_image_scores

RULES = {"images": ["images"], "runs": ["runs"], "each": ["images", "runs"], "mark": list(UNITS)}


@dataclass(frozen=True)
class Components:
    """What scores are made of, C metrics, G models, S seeds, I images.

    Attributes:
        metrics: names ``[C]``.
        trainings: covariance ``[C, C]`` of what a training adds, between the runs of one model.
        images: ``[I, C]``, what an image adds to the difference of two models; mean 0.
        rest: ``[I, G * S, C]``, what is left in a run on an image.
    """

    metrics: tuple[str, ...]
    trainings: np.ndarray
    images: np.ndarray
    rest: np.ndarray

    def errors(self, seeds: int) -> dict[str, float]:
        """Return the standard errors of the first metric's difference
        by where they come from, in percent points."""
        images, rest = self.images[:, 0].var(ddof=1), self.rest[:, :, 0].var()
        parts = {
            "trainings": 2 * self.trainings[0, 0] / seeds,
            "images": images / len(self.images),
            "rest": 2 * rest / seeds / len(self.images),
        }
        return {name: round(100 * float(value) ** 0.5, 3) for name, value in parts.items()}


def take_apart(scores: np.ndarray, metrics: Sequence[str]) -> Components:
    """Estimate the components of scores ``[G, S, I, C]`` by the method of moments.

    A negative variance counts as 0.
    """
    models, seeds, images, _ = scores.shape
    profiles = scores.mean(axis=1, keepdims=True)  # [G, 1, I, C]
    runs = scores.mean(axis=2, keepdims=True)  # [G, S, 1, C]
    rest = scores - profiles - runs + profiles.mean(axis=2, keepdims=True)
    # Residuals of S seeds lack a share of 1 / S.
    rest *= np.sqrt(seeds / (seeds - 1))
    within = (runs - runs.mean(axis=1, keepdims=True))[:, :, 0].reshape(models * seeds, -1)
    flat = rest.reshape(-1, images, rest.shape[-1])  # [G * S, I, C]
    noise = (
        sum(np.cov(run, rowvar=False).reshape(len(metrics), -1) for run in flat)
        / len(flat)
        / images
    )
    trainings = _without_negative(within.T @ within / (models * (seeds - 1)) - noise)
    # The difference of two averages still holds their rest,
    # which is drawn anew: it is shrunk to its own variance.
    differences = profiles[0, 0] - profiles[1, 0]
    differences = differences - differences.mean(axis=0)
    observed = differences.var(axis=0, ddof=1)
    share = np.clip(1 - 2 * flat.var(axis=(0, 1)) / seeds / observed, 0, None)
    return Components(tuple(metrics), trainings, differences * np.sqrt(share), flat.swapaxes(0, 1))


def _without_negative(covariance: np.ndarray) -> np.ndarray:
    """Return the nearest covariance whose variances are not negative."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    return np.asarray(vectors * np.clip(values, 0, None) @ vectors.T)


def draw(
    parts: Components, *, seeds: int, difference: np.ndarray, random: np.random.Generator
) -> np.ndarray:
    """Draw the scores ``[2, seeds, I, C]`` of a baseline
    and of a model that is better by ``difference`` ``[C]``."""
    count = len(parts.images)
    chosen = random.integers(count, size=count)
    trainings = random.multivariate_normal(
        np.zeros(len(parts.metrics)), parts.trainings, size=(2, seeds)
    )
    # The sign is drawn: which of the two models an image favours is chance.
    images = parts.images[chosen] * random.choice([-0.5, 0.5], size=(count, 1))
    which = random.integers(parts.rest.shape[1], size=(2, seeds, count))
    rest = parts.rest[chosen, which]
    favour = np.stack([-images, images])[:, None]
    better = np.stack([np.zeros_like(difference), difference])[:, None, None]
    return np.asarray(trainings[:, :, None] + favour + rest + better)


def marks(scores: np.ndarray) -> dict[str, tuple[bool, bool]]:
    """Return for each rule whether a table
    of ``[2, seeds, I, C]`` marks its first metric alone, and any of all."""
    family = [_compare(scores[..., index]) for index in range(scores.shape[-1])]
    found = {}
    for rule, units in RULES.items():
        (alone,) = correct(family[:1], units=units)
        of_all = correct(family, units=units)
        found[rule] = (alone.mark != 0, any(comparison.mark for comparison in of_all))
    return found


def _compare(scores: np.ndarray) -> Comparison:
    """Compare two models' scores ``[2, seeds, I]``.

    The corpus score is the mean over the images, as CIDEr's is.
    """
    baseline, other = scores
    first, second = (
        Sample(each.mean(axis=0), each.mean(axis=1).tolist()) for each in (baseline, other)
    )
    return compare_rows("CIDEr", first, second)


def rates(
    parts: Components, *, seeds: int, difference: float, tables: int, random: np.random.Generator
) -> dict[str, dict[str, float]]:
    """Return for each rule the share of drawn tables that mark the first metric alone, and any
    metric.

    Args:
        parts: what scores are made of.
        seeds: runs per row.
        difference: true difference of the first metric; the others differ by as much of their
        training spread.
        tables: how many to draw.
        random: source of chance.
    """
    spread = np.sqrt(np.diag(parts.trainings))
    true = difference * spread / spread[0] if spread[0] else np.full(len(spread), difference)
    counts = {rule: np.zeros(2) for rule in RULES}
    for _ in range(tables):
        drawn = draw(parts, seeds=seeds, difference=true, random=random)
        for rule, marked in marks(drawn).items():
            counts[rule] += marked
    return {
        rule: dict(zip(("one", "any"), (count / tables).tolist(), strict=True))
        for rule, count in counts.items()
    }


def read(folders: Sequence[Path], metrics: Sequence[str], stage: str) -> np.ndarray:
    """Read the scores ``[G, S, I, C]`` of models and seeds.

    Models of fewer seeds limit the others.
    """
    models = [
        [read_image_scores(run, "test") for run in sorted(folder.glob(f"seed-*/{stage}"))]
        for folder in folders
    ]
    seeds = min(map(len, models))
    return np.stack(
        [[np.stack([run[m] for m in metrics], axis=1) for run in runs[:seeds]] for runs in models]
    )


def figures(
    parts: Components, *, tables: int, seeds: Sequence[int], differences: Sequence[float]
) -> Iterator[dict]:
    """Yield one figure for each number of seeds
    and true difference (of the first metric, in percent points)."""
    for count in seeds:
        for difference in differences:
            random = np.random.default_rng([count, round(1000 * difference)])
            found = rates(
                parts, seeds=count, difference=difference / 100, tables=tables, random=random
            )
            yield {
                "seeds": count,
                "difference": difference,
                "errors": parts.errors(count),
                "tables": tables,
                **found,
            }


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
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 5, 10])
    parser.add_argument("--differences", type=float, nargs="+", default=[0.0, 0.25, 0.5, 1.0, 2.0])
    parser.add_argument("--tables", type=int, default=1000)
    parser.add_argument(
        "--spread", type=float, default=1.0, help="factor on what trainings differ by"
    )
    a = parser.parse_args()
    scores = read(a.models, a.metrics, a.stage)
    parts = take_apart(scores, a.metrics)
    parts = Components(parts.metrics, parts.trainings * a.spread**2, parts.images, parts.rest)
    print(
        json.dumps({"scores": list(scores.shape), "significant": SIGNIFICANT, "spread": a.spread}),
        flush=True,
    )
    for figure in figures(parts, tables=a.tables, seeds=a.seeds, differences=a.differences):
        print(json.dumps(figure), flush=True)


if __name__ == "__main__":
    main()
