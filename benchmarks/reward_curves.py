"""Curves of healthy and broken second stages, from the tables of
docs/development/recipes_photos.md.

python -m benchmarks.reward_curves          writes docs/images/reward.png
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "development" / "recipes_photos.md"
SAMPLES = re.compile(r"^\| (S\d): [^|]*\| ([^|]*)\| ([^|]*)\|", re.M)
BEAMS = re.compile(r"^\| from (\w[^|]*?) \| \**([\d.]+)\** \| ([^|]*)\| ([^|]*)\|$", re.M)
STEPS = 300  # of an epoch of the second table


def numbers(text: str) -> list[float]:
    """Return the numbers of a cell."""
    return [float(number) for number in re.findall(r"\d+\.\d+", text)]


def by_steps(page: str) -> dict[str, tuple[list[int], list[float]]]:
    """Return steps and validation CIDEr-D of the trainings S1 to S4."""
    curves = {}
    for name, cells, _ in SAMPLES.findall(page):
        pairs = re.findall(r"(\d+): \**([\d.]+)", cells)
        curves[name] = [int(step) for step, _ in pairs], [float(score) for _, score in pairs]
    return curves


def by_epochs(page: str) -> dict[str, tuple[list[float], list[float]]]:
    """Return of each training from beams the validation
    CIDEr-D (epoch 0 first) and the reward of each epoch."""
    return {
        name.replace("`", ""): ([float(begin), *numbers(scores)], numbers(rewards))
        for name, begin, scores, rewards in BEAMS.findall(page)
    }


def main() -> None:
    """Draw both tables."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    page = PAGE.read_text(encoding="utf-8")
    figure, (left, right) = pyplot.subplots(
        1, 2, figsize=(10, 4), sharey=True, layout=("constrained")
    )
    for name, (steps, scores) in by_steps(page).items():
        left.plot(steps, scores, marker="o", label=name)
    for name, (scores, rewards) in by_epochs(page).items():
        line = right.plot(range(len(scores)), scores, marker="o", label=f"from {name}")[0]
        last = len(scores) - 1, scores[-1]
        right.annotate(
            f"{rewards[-1]:.0f}", last, (4, 4), textcoords=("offset points"), color=line.get_color()
        )
    left.set(
        xlabel="steps of the second stage",
        ylabel="validation CIDEr-D (%)",
        title=("Samples (S1-S3), beams (S4)"),
    )
    right.set(
        xlabel=f"epochs of {STEPS} steps",
        title=("Beams; at the end of a curve: last training reward"),
    )
    right.set_xticks(range(4))
    for axes in (left, right):
        axes.legend(fontsize="small")
        axes.grid(alpha=0.3)
    figure.savefig(ROOT / "docs" / "images" / "reward.png", dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    main()
