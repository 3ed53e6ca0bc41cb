"""A training step of two threads, alone and beside a program that keeps a core busy.

``python -m benchmarks.spinning`` prints milliseconds a step for each ``GOMP_SPINCOUNT``: how many
rounds a thread of OpenMP waits actively for the others. Nothing else should be running. Which
cores the programs share is the kernel's choice, so the second column varies.
"""

import os
import subprocess
import sys
from pathlib import Path
from time import perf_counter

ROOT = Path(__file__).parents[1]
COUNTS = ("300000", "10000", "3000", "1000", "0")  # the first is OpenMP's own
STEPS = 20
IMAGES = 32


def main() -> None:
    """Print one line for each count."""
    print("| GOMP_SPINCOUNT | alone, ms | beside a busy core, ms |")
    print("|---:|---:|---:|")
    for count in COUNTS:
        alone = milliseconds(count)
        busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        try:
            beside = milliseconds(count)
        finally:
            busy.kill()
            busy.wait()
        print(f"| {count} | {alone:.0f} | {beside:.0f} |", flush=True)


def milliseconds(count: str) -> float:
    """Measure a step in a process of its own: torch reads the count when it is imported."""
    environment = {**os.environ, "GOMP_SPINCOUNT": count, "OMP_NUM_THREADS": "2"}
    command = [sys.executable, "-m", "benchmarks.spinning", "--worker"]
    finished = subprocess.run(
        command, env=environment, cwd=ROOT, check=True, capture_output=True, text=True
    )
    return float(finished.stdout)


def work() -> None:
    """Print the milliseconds of a step of a small convolutional network."""
    import torch

    from recap.features.backbones import timm_library

    model = timm_library().create_model("mobilenetv2_050", num_classes=10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    pictures = torch.rand(IMAGES, 3, 96, 96)
    classes = torch.randint(10, (IMAGES,))

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(pictures), classes).backward()
        optimizer.step()

    step()
    start = perf_counter()
    for _ in range(STEPS):
        step()
    print(1000 * (perf_counter() - start) / STEPS)


if __name__ == "__main__":
    if "--worker" in sys.argv:
        work()
    else:
        main()
