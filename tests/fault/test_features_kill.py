"""SIGKILL of the feature writer at random moments:
nothing half-written, at most one shard lost, equal bytes."""

import random
import signal
import subprocess
import sys
import time

from recap.features.store import FeatureStore

IMAGES, SHARD = 120, 6
WRITER = """
import sys, time
from pathlib import Path
import numpy as np
from recap.features.records import ImageFeatures
from recap.features.write import build_store

folder, images, shard = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])

def extract(groups):
    with (folder / "log").open("a") as log:
        for image_id in (image_id for group in groups for image_id in group):
            values = np.random.default_rng(image_id).normal(size=(49, 64))
            log.write(f"{image_id}\\n")
            log.flush()
            time.sleep(0.002)
            yield ImageFeatures(image_id, (8, 8), values)

build_store(
    out=folder / "out" / "f.h5", shards=folder / "shards", ids=range(images), shard_size=shard,
    dtype="float16", job="c" * 16, extract=extract,
    attributes=dict(extractor="{}", extractor_hash="e", weights_sha256="w", made_with=""),
)
"""


def start(folder):
    folder.mkdir(exist_ok=True)
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder), str(IMAGES), str(SHARD)],
        stderr=subprocess.DEVNULL,
    )


def done(folder):
    log = folder / "log"
    return log.read_text().count("\n") if log.exists() else 0


def kill_after(folder, images, delay):
    """Kill the writer once it has extracted ``images`` more images.

    Return how many it did extract.
    """
    before = done(folder)
    process = start(folder)
    while process.poll() is None and done(folder) < before + images:
        time.sleep(0.001)
    time.sleep(delay)
    process.send_signal(signal.SIGKILL)
    process.wait()
    return done(folder) - before


def test_killed_writer_loses_at_most_one_shard_and_ends_with_the_same_bytes(tmp_path, kills=20):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert start(whole).wait() == 0
    rng = random.Random(0)
    for number in range(kills):
        # The last kills fall behind the last image, into the packing and the removal of the shards.
        kill_after(
            broken,
            rng.randint(1, 3 * SHARD) if number < kills - 4 else IMAGES,
            rng.uniform(0, 0.03),
        )
        for path in [*broken.glob("shards/*.shard.h5"), *broken.glob("out/f.h5")]:
            FeatureStore(path).verify()
    assert start(broken).wait() == 0
    assert (broken / "out" / "f.h5").read_bytes() == (whole / "out" / "f.h5").read_bytes()
    assert done(broken) <= IMAGES + kills * SHARD
    assert [path.name for path in (broken / "out").iterdir()] == ["f.h5"]
    assert not (broken / "shards").exists()
