"""Random batches of features: our store beside a raw memory map,
one HDF5 dataset per image, and one npz per image.

One JSON line a reader and type; a store of COCO's size, in bounded memory; a store of this version,
and of an earlier one; pictures a second, decoding hidden or not:

    python -m benchmarks.features batches [--images 2000] [--folder DIR]
    python -m benchmarks.features whole [--images 123287] [--folder DIR]
    python -m benchmarks.features open [--images 123287]
    python -m benchmarks.features extract
"""

from __future__ import annotations

import argparse
import io
import json
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import h5py
import numpy as np
import torch

from benchmarks.figures import Case
from recap.features.records import ImageFeatures
from recap.features.store import FeatureStore
from recap.features.write import build_store

ROWS, DIM, BATCH = 36, 2048, 50
ABOUT = {
    "extractor": "{}",
    "extractor_hash": "0" * 16,
    "weights_sha256": "0" * 64,
    "made_with": ("benchmark"),
}
Reader = Callable[[list[int]], torch.Tensor]


def vectors(image: int, dtype: str) -> np.ndarray:
    """Non-negative, a third zeros, as region vectors are."""
    return np.maximum(
        np.random.default_rng(image).standard_normal((ROWS, DIM), np.float32) + 0.4, 0
    ).astype(dtype)


def write(folder: Path, images: int, dtype: str, give: Callable[[int], np.ndarray]) -> Path:
    """Write a store of ``images`` images."""
    return store(folder / f"{dtype}.h5", range(images), give, dtype)


def store(
    path: Path, images: Iterable[int], give: Callable[[int], np.ndarray], dtype: str = "float16"
) -> Path:
    """Write a store of some images."""

    def extract(groups: list[list[int]]) -> Iterator[ImageFeatures]:
        return (ImageFeatures(image, (64, 64), give(image)) for group in groups for image in group)

    common = {
        "shards": path.parent / "shards",
        "shard_size": 1000,
        "job": "0" * 16,
        "attributes": ABOUT,
    }
    build_store(out=path, ids=images, dtype=dtype, extract=extract, streams=("region",), **common)
    return path


def readers(
    folder: Path, images: int, dtype: str
) -> tuple[dict[str, Reader], dict[str, list[Path]]]:
    """Write the same vectors in four forms; return a reader of each, and its files."""
    store = FeatureStore(write(folder, images, dtype, lambda image: vectors(image, dtype)))
    raw = np.memmap(folder / f"{dtype}.raw", dtype, "w+", shape=(images, ROWS, DIM))
    (folder / dtype).mkdir()
    with h5py.File(folder / f"{dtype}_each.h5", "w") as file:
        for image in range(images):
            raw[image] = file[f"{image}_features"] = found = vectors(image, dtype)
            np.savez(folder / dtype / f"{image}.npz", feat=found)
    raw.flush()
    del raw
    mapped = torch.from_numpy(
        np.memmap(folder / f"{dtype}.raw", dtype, "c", shape=(images, ROWS, DIM))
    )
    each = h5py.File(folder / f"{dtype}_each.h5", "r")

    def one_npz(image: int) -> np.ndarray:
        with np.load(folder / dtype / f"{image}.npz") as found:
            return found["feat"]

    def stacked(get: Callable[[int], np.ndarray]) -> Reader:
        return lambda ids: torch.from_numpy(np.stack([get(image) for image in ids])).float()

    known: dict[str, Reader] = {
        "store": lambda ids: store.read(ids)[0],
        "raw_map": lambda ids: mapped[torch.tensor(ids)].float(),
        "hdf5_each": stacked(lambda image: each[f"{image}_features"][()]),
        "npz_each": stacked(one_npz),
    }
    files = {
        "store": [store.path],
        "raw_map": [folder / f"{dtype}.raw"],
        "hdf5_each": [folder / f"{dtype}_each.h5"],
        "npz_each": list((folder / dtype).iterdir()),
    }
    return known, files


def forget(files: list[Path]) -> None:
    """Ask the kernel to drop the pages of files from memory."""
    for path in files:
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def timed(read: Reader, ids: list[int]) -> float:
    """Time one batch; every number of it is touched once, wherever it came from."""
    start = time.perf_counter()
    read(ids)
    return time.perf_counter() - start


def batches(  # noqa: C901
    folder: Path, images: int = 2000, rounds: int = 40, cold_rounds: int = 6
) -> Iterator[dict[str, object]]:
    """Yield the figures of ``store.random_batch``.

    The readers alternate in one run, medians are given.
    """
    rng = np.random.default_rng(0)
    for dtype in ("float16", "float32"):
        known, files = readers(folder, images, dtype)
        sample = rng.permutation(images)[:BATCH].tolist()
        first = known["raw_map"](sample)
        assert all(torch.equal(first, read(sample)) for read in known.values())
        os.sync()  # or the disk still writes while the first readers are timed
        for read in known.values():  # warm is what a second epoch sees: every page was touched once
            for start in range(0, images, BATCH):
                read(list(range(start, min(start + BATCH, images))))
        for state, count in (("warm", rounds), ("cold", cold_rounds)):
            times: dict[str, list[float]] = {name: [] for name in known}
            for turn in range(count):
                ids = rng.permutation(images)[:BATCH].tolist()
                # Whoever comes first pays for what the others
                # find warm in the processor: take turns.
                for name in [*known, *known][turn % len(known) :][: len(known)]:
                    if state == "cold":
                        forget(files[name])
                    times[name].append(timed(known[name], ids))
            middle = {name: statistics.median(found) for name, found in times.items()}
            for name in ("raw_map", "hdf5_each", "npz_each"):
                yield {
                    "name": "store.random_batch",
                    "seconds": round(middle["store"], 6),
                    "reference": name,
                    "reference_seconds": round(middle[name], 6),
                    "ratio": round(middle[name] / middle["store"], 2),
                    "shapes": f"{BATCH} of {images} images x {ROWS} x {DIM} {dtype}, {state}",
                    "threads": torch.get_num_threads(),
                    "device": "cpu",
                }


def random_batch() -> Case:
    """Return the case of ``make bench``:
    the store against a raw memory map of the same bytes, float16, warm."""
    folder = Path(tempfile.mkdtemp(prefix="recap-bench-"))
    store = FeatureStore(write(folder, 500, "float16", lambda image: vectors(image, "float16")))
    packed = store.blocks()
    raw = np.concatenate([arrays["region/values"] for _, _, arrays in packed]).reshape(
        -1, ROWS, DIM
    )
    raw.tofile(folder / "raw")
    mapped = torch.from_numpy(np.memmap(folder / "raw", "float16", "c", shape=raw.shape))
    for path in (store.path, folder / "raw"):
        path.unlink()  # the maps keep them until this process ends
    folder.rmdir()
    ids = np.random.default_rng(0).permutation(500)[:BATCH].tolist()

    def ours() -> torch.Tensor:
        return store.read(ids)[0]

    def reference() -> torch.Tensor:
        return mapped[torch.tensor(ids)].float()

    assert torch.equal(ours(), reference())
    return Case(
        "store.random_batch",
        f"{BATCH} of 500 images x {ROWS} x {DIM} float16, warm",
        ours,
        reference,
    )


def whole(folder: Path, images: int) -> Iterator[dict[str, object]]:
    """Yield seconds and peak memory of writing, opening, verifying and reading a store of COCO's
    size.

    Content: 64 different images of noise, repeated, so that no disk or file system can shrink it by
    its zeros.
    """
    pool = [vectors(image, "float16") for image in range(64)]
    known = {
        "images": images,
        "shapes": (f"{images} x {ROWS} x {DIM} float16, 64 different images repeated"),
    }

    def said(name: str, start: float) -> dict[str, object]:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        return {
            "name": name,
            "seconds": round(time.perf_counter() - start, 2),
            "peak_gib": round(peak, 2),
            **known,
        }

    start = time.perf_counter()
    path = write(folder, images, "float16", lambda image: pool[image % 64])
    yield {**said("store.whole.write", start), "gib": round(path.stat().st_size / 2**30, 2)}
    forget([path])
    start = time.perf_counter()
    store = FeatureStore(path)
    store.read([images - 1])
    yield said("store.whole.open_and_read_one", start)
    start = time.perf_counter()
    store.verify()
    yield said("store.whole.verify", start)
    forget([path])
    rng, start = np.random.default_rng(0), time.perf_counter()
    for _ in range(40):
        store.read(rng.permutation(images)[:BATCH].tolist())
    yield {**said("store.whole.40_random_batches_cold", start)}


def extract() -> Iterator[dict[str, object]]:
    """Yield pictures a second of a timm backbone with decoding beside it
    and in turns with it (and the GPU's share)."""
    from PIL import Image

    from recap.core.device import select_device
    from recap.core.threads import map_in_threads
    from recap.features.grid import Backbone, Squares
    from recap.settings.features import GridFeatures

    files = [jpeg(number) for number in range(16)]
    spec = GridFeatures(kind="grid", backbone="mobilenetv2_100", weights="random", batch_size=8)
    net = Backbone(spec, weights=None, device=select_device("auto"))
    torch.set_num_threads(1)

    def decoded(batch: list[int]) -> list[Squares]:
        return [
            net.prepare(number, [Image.open(io.BytesIO(files[number])).convert("RGB")])
            for number in batch
        ]

    def encode(squares: list[Squares]) -> list[ImageFeatures]:
        return list(net(squares))

    todo = [list(range(8))] * 24
    ready = decoded(todo[0])
    jobs: tuple[tuple[str, int, Callable[[list[int]], object]], ...] = (
        ("decode_only", 1, decoded),
        ("compute_only", 1, lambda batch: encode(ready)),
        ("one_thread", 1, lambda batch: encode(decoded(batch))),
        ("two_threads", 2, lambda batch: encode(decoded(batch))),
    )
    for name, threads, job in jobs:
        start = time.perf_counter()
        for _ in map_in_threads(job, todo, threads=threads):
            pass
        rate = 8 * len(todo) / (time.perf_counter() - start)
        yield {
            "name": f"extract.{name}",
            "pictures_per_second": round(rate, 1),
            "shapes": "JPEG 500 x 375 -> mobilenetv2_100, 224 x 224, batches of 8",
            "device": str(net.device),
        }


def opening(folder: Path, images: int) -> Iterator[dict[str, object]]:
    """Yield seconds to open a store of COCO's size here,
    and in the process for those of earlier versions; medians."""

    def small(image: int) -> np.ndarray:
        return np.full((1, 8), image % 1000, np.float16)

    own = write(folder, images, "float16", small)
    with h5py.File(own) as file:
        size = file.userblock_size
    without = folder / "without.h5"
    without.write_bytes(own.read_bytes()[size:])
    times: dict[Path, list[float]] = {own: [], without: []}
    for _ in range(11):
        for path, found in times.items():
            start = time.perf_counter()
            FeatureStore(path)
            found.append(time.perf_counter() - start)
    first = max(times[without][0], times[own][0])  # starts the process that reads HDF5 files
    middle = {path: statistics.median(found[1:]) for path, found in times.items()}
    yield {
        "name": "store.open",
        "seconds": round(middle[own], 4),
        "reference": "read by another process",
        "reference_seconds": round(middle[without], 4),
        "reference_seconds_first": round(first, 4),
        "ratio": round(middle[without] / middle[own], 2),
        "images": images,
    }


def jpeg(number: int) -> bytes:
    """Return a noisy JPEG of a photograph's size."""

    from PIL import Image

    coarse = np.random.default_rng(number).integers(0, 256, (47, 63, 3), dtype=np.uint8)
    content = io.BytesIO()
    Image.fromarray(coarse).resize((500, 375)).save(content, format="JPEG", quality=90)
    return content.getvalue()


def main() -> None:
    """Print one JSON line a figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["batches", "whole", "open", "extract"])
    parser.add_argument("--images", type=int)
    parser.add_argument("--folder", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.folder) as name:
        figures = {
            "batches": lambda: batches(Path(name), asked.images or 2000),
            "whole": lambda: whole(Path(name), asked.images or 123_287),
            "open": lambda: opening(Path(name), asked.images or 123_287),
            "extract": extract,
        }[asked.what]()
        for figure in figures:
            print(json.dumps(figure), flush=True)


if __name__ == "__main__":
    main()
