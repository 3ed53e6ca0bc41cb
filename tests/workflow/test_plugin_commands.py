"""A data set and an extractor of a user's own, in a module that the package does not know."""

import json
import os
import subprocess
import sys

import pytest

from recap.settings.base import NamesFiles, OutsideFile
from recap.settings.datasets import DATASETS, DatasetConfig
from recap.settings.features import FEATURES

MODULE = """
from typing import ClassVar, Literal

import numpy as np

from recap.settings.datasets import DATASETS, DatasetConfig
from recap.settings.features import FEATURES, FeaturesConfig
from recap.settings.base import OutsideFile


@DATASETS.register
class Lines(DatasetConfig):
    reader: ClassVar[str] = "toy:read"
    kind: Literal["lines"]
    captions: OutsideFile
    images: list[OutsideFile]


@FEATURES.register
class Mean(FeaturesConfig):
    extractor: ClassVar[str] = "toy:extract"
    kind: Literal["mean"]


def read(spec, *, inputs, out, name):
    from recap.core.hashing import sha256_file
    from recap.data.corpus import Caption
    from recap.data.datasets.base import Built

    rows = [line.split("\\t") for line in (inputs / spec.captions).read_text().splitlines()]
    captions = [Caption(i, file, split, i, text, text.split()) for i, (file, split, text) in enumerate(rows)]
    return Built(captions, sha256_file(inputs / spec.captions))


def extract(spec, job):
    from recap.features.attributes import describe
    from recap.features.extraction import Pictures, write
    from recap.features.records import ImageFeatures

    pictures = Pictures.find(job)

    def features(groups):
        for image_id in (image_id for group in groups for image_id in group):
            (picture,) = pictures.open(image_id)
            yield ImageFeatures(image_id, picture.size, np.asarray(picture, np.float32).mean((0, 1))[None] / 255)

    about = describe(spec, weights_sha256="none", made_with="toy")
    write(
        spec, job, features, ids=list(pictures.views), attributes=about, streams=("grid",), origins=pictures.origins
    )
"""


@pytest.fixture
def recap(tmp_path, monkeypatch):
    """Return a function that runs a command with the module as plug-in, in a folder with three pictures."""
    from PIL import Image

    (tmp_path / "toy.py").write_text(MODULE)
    lines = [f"{i}.png\t{split}\ta red dog" for i, split in enumerate(["train", "val", "test"])]
    (tmp_path / "captions.txt").write_text("\n".join(lines))
    (tmp_path / "photos").mkdir()
    for number in range(3):
        Image.new("RGB", (8, 8), (51 * number, 0, 255)).save(tmp_path / "photos" / f"{number}.png")
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "RECAP_PLUGINS": "toy"}

    def run(*words):
        return subprocess.run(
            [sys.executable, "-m", "recap", *words], cwd=tmp_path, env=environment, capture_output=True, text=True
        )

    return run


def test_a_data_set_and_an_extractor_of_a_plugin_run_as_commands(recap, tmp_path):
    spec = {"kind": "lines", "captions": "captions.txt", "images": ["photos"]}
    built = recap("data", "corpus", "--name", "toy", "--spec", json.dumps(spec), "--inputs", ".", "--out", "made")
    assert built.returncode == 0, built.stderr
    options = ["--corpus", "made/corpus.parquet", "--images", "photos", "--inputs", ".", "--shards", "shards"]
    (tmp_path / "execution.yaml").write_text("shard_size: 2\n")
    options += ["--execution", "execution.yaml", "--out", "f.h5"]
    made = recap("features", "extract", "--spec", '{"kind": "mean"}', *options)
    assert made.returncode == 0, made.stderr

    from recap.features.store import FeatureStore

    values, _ = FeatureStore(tmp_path / "f.h5").read([2])
    assert values[0, 0].tolist() == pytest.approx([0.4, 0.0, 1.0], abs=1e-3)


def test_a_misspelt_kind_is_told_those_of_plugins_too(recap):
    done = recap("data", "corpus", "--name", "toy", "--spec", '{"kind": "linse"}', "--inputs", ".", "--out", "made")
    assert done.returncode == 2
    assert "unknown kind 'linse'; did you mean 'lines'?" in done.stderr


def test_every_text_of_the_shipped_kinds_says_whether_it_is_a_file():
    kinds = {**DATASETS.classes(), **FEATURES.classes()}
    # Another test of this process may have loaded a plug-in.
    kinds = {name: kind for name, kind in kinds.items() if kind.__module__.startswith("recap.settings.")}
    assert len(kinds) == 13
    assert all(issubclass(kind, NamesFiles) for kind in kinds.values())


def test_a_path_that_is_not_declared_as_an_outside_file_is_refused():
    with pytest.raises(TypeError, match=r"Forgotten.captions: annotate it as OutsideFile if it is the path"):

        class Forgotten(DatasetConfig):
            captions: str

    class Declared(DatasetConfig):
        captions: OutsideFile
        lists: list[OutsideFile] | None = None

    assert Declared(kind="x", captions="a.txt", lists=["b.txt"]).outside_files() == ["a.txt", "b.txt"]
