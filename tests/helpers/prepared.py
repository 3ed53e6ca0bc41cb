"""A tiny data set, ready for training, and the command that trains on it."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from helpers.feature_stores import write_store

EXECUTION = "{device: cpu, threads: 1, checkpoint_minutes: 1.0e-9}"
MODEL = {
    "kind": "zodiac",
    "d_model": 16,
    "heads": 2,
    "d_feed_forward": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
}
XE = {"epochs": 3, "learning_rate": 0.005, "images_per_batch": 2}


@dataclass
class Prepared:
    """Files that a training needs, and the commands that use them."""

    folder: Path

    def command(self, name, execution=EXECUTION, **changes):
        spec = {
            **dict.fromkeys(("dataset", "subset", "features", "model", "recipe"), "tiny"),
            "stage": "xe",
            "model_settings": MODEL,
            "stage_settings": XE,
            "seed": 1,
        } | changes
        computed = self.folder / f"{name}.yaml"
        computed.write_text(execution)
        files = [
            self.folder / name
            for name in ("corpus.parquet", "vocabulary.json", "subset.json", "features.h5")
        ]
        arguments = [
            sys.executable,
            "-m",
            "recap",
            "train",
            "--spec",
            json.dumps(spec),
            "--execution",
            str(computed),
        ]
        for file in files:
            arguments += [f"--{file.stem}", str(file)]
        return [
            *arguments,
            "--state",
            str(self.folder / name / "state"),
            "--out",
            str(self.folder / name / "run"),
        ]

    def train(self, name, **changes):
        return subprocess.run(self.command(name, **changes), capture_output=True, text=True)


def write_scenes(folder, name, **settings):
    """Write the corpus, the vocabulary and a subset of all pairs of invented scenes.

    Return the corpus's path.
    """
    from recap.data.corpus import build_corpus
    from recap.data.subsets import draw_subset
    from recap.data.vocabulary import build_vocabulary
    from recap.settings.datasets import ScenesDataset

    spec = ScenesDataset(kind="scenes", **settings)
    build_corpus(name=name, spec=spec, inputs=folder, out=folder)
    corpus = folder / "corpus.parquet"
    build_vocabulary(
        corpus=corpus, rule=spec.vocabulary, inputs=Path(), out=folder / "vocabulary.json"
    )
    draw_subset(
        corpus=corpus, name="full", fraction=1.0, unit="pair", seed=1, out=folder / "subset.json"
    )
    return corpus


def prepare(folder, without=()):
    """Make a corpus of 30 scenes and all that training needs.

    Images ``without`` have no features.
    """
    from recap.data.corpus import Corpus

    corpus = write_scenes(folder, "tiny", train=20, val=5, test=5, size=32)
    write_store(
        folder / "features.h5",
        [image for image in Corpus.read(corpus).image_ids() if image not in without],
    )
    return Prepared(folder)
