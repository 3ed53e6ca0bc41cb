"""Pictures a second of a detector: one at a time, and in batches of pictures of one size, in alternated rounds.

python -m benchmarks.detector PHOTOS.zip [--features bottom_up_r101] [--images 8] [--rounds 1] [--threads 2]

It needs detectron2 (docs/detectron2.md). Settings are those of ``params/features``, weights are random: they change which
regions are found, and nothing in the operations before and after.
"""

from __future__ import annotations

import argparse
import json
import time
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import torch
from PIL import Image

from recap.features.regions import Detector
from recap.features.resized import Resized
from recap.settings.params import load_named

PARAMS = Path(__file__).parent.parent / "params"
BATCHES = (1, 8)


def photos(archive: Path, detector: Detector, count: int) -> list[Resized]:
    """Return the first pictures of the zip that have one size in common, as the detector reads them."""
    found: defaultdict[tuple[int, int], list[Resized]] = defaultdict(list)
    with zipfile.ZipFile(archive) as opened:
        names = (name for name in opened.namelist() if name.endswith(".jpg") and "__MACOSX" not in name)
        for number, name in enumerate(names):
            picture = Image.open(BytesIO(opened.read(name))).convert("RGB")
            alike = found[picture.size]
            alike.append(detector.prepare(number, picture))
            if len(alike) == count:
                return alike
    raise SystemExit(f"{archive}: has no {count} pictures of one size; ask for fewer with --images")


def figures(detector: Detector, pictures: list[Resized], rounds: int) -> Iterator[dict[str, object]]:
    """Yield seconds and CPU seconds per picture of each size of batch, of each round."""
    detector(pictures[:1])  # what is done once
    for turn in range(rounds):
        for size in BATCHES if turn % 2 == 0 else BATCHES[::-1]:
            wall, cpu = time.perf_counter(), time.process_time()
            regions = 0
            for start in range(0, len(pictures), size):
                regions += sum(len(found.values["region"]) for found in detector(pictures[start : start + size]))
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            yield {
                "batch": size,
                "pictures_per_second": round(len(pictures) / wall, 4),
                "seconds": round(wall / len(pictures), 2),
                "cpu_seconds": round(cpu / len(pictures), 2),
                "regions": round(regions / len(pictures), 1),
            }


def main() -> None:
    """Print one JSON line a round and size of batch."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("photos", type=Path)
    parser.add_argument("--features", default="bottom_up_r101")
    parser.add_argument("--images", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(0)
    spec = load_named(PARAMS, "features", a.features).model_copy(update={"weights": "random"})
    detector = Detector(spec, inputs=PARAMS, device=torch.device("cpu"))
    pictures = photos(a.photos, detector, a.images)
    about = {"features": a.features, "pixels": list(pictures[0].pixels.shape[1:]), "threads": a.threads}
    for found in figures(detector, pictures, a.rounds):
        print(json.dumps({**about, **found}), flush=True)


if __name__ == "__main__":
    main()
