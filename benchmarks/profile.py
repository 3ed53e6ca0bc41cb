"""Where the time of a training step goes:
`python -m benchmarks.profile OUT.svg`, ours beside the plain reference.

Each bar is one step of torch's profiler, summed by kind of operation (self time on the processor).
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable

from torch.profiler import ProfilerActivity, profile

from benchmarks import train

KINDS = {
    "products": ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "linear_pointwise"),
    "attention (fused)": ("flash_attention",),
    "random numbers and dropout": (
        "bernoulli",
        "dropout",
        "aten::rand",
        "multinomial",
        "exponential",
    ),
    "copies and indexing": (
        "copy_",
        "index",
        "gather",
        "scatter",
        "cat",
        "clone",
        "fill_",
        "zero_",
    ),
    "softmax": ("softmax",),
    "optimiser and clipping": ("adam", "Optimizer", "clamp", "addcdiv", "addcmul", "lerp", "sqrt"),
}


def shares(step: Callable[[], object]) -> dict[str, float]:
    """Seconds by kind of operation in one step."""
    step()
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        step()
    found: dict[str, float] = defaultdict(float)
    for event in profiler.key_averages():
        kind = next(
            (kind for kind, parts in KINDS.items() if any(part in event.key for part in parts)),
            "other",
        )
        found[kind] += event.self_cpu_time_total / 1e6
    return dict(found)


def main() -> None:
    """Draw the picture and print its numbers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out")
    parser.add_argument("--step", choices=("xe", "scst"), default="xe")
    arguments = parser.parse_args()
    case = {"xe": train.xe, "scst": train.scst}[arguments.step]()
    bars = {"released way": shares(case.reference), "recap": shares(case.ours)}
    draw(bars, f"{case.name}: {case.shapes}", arguments.out)
    for name, parts in bars.items():
        print(
            name,
            {
                kind: round(value, 3)
                for kind, value in sorted(parts.items(), key=lambda part: -part[1])
            },
        )


def draw(bars: dict[str, dict[str, float]], title: str, out: str) -> None:
    """Stack the kinds of operation of each bar."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 3.0), layout="constrained")
    left = dict.fromkeys(bars, 0.0)
    for kind in (*KINDS, "other"):
        widths = [parts.get(kind, 0.0) for parts in bars.values()]
        axes.barh(list(bars), widths, left=list(left.values()), label=kind)
        left = {name: left[name] + width for name, width in zip(bars, widths, strict=True)}
    axes.set_xlabel("seconds of one processor")
    axes.set_title(title, fontsize=8)
    figure.legend(loc="outside lower center", ncols=4, fontsize=7)
    figure.savefig(out)


if __name__ == "__main__":
    main()
