"""From a run to what it was made with.

What is missing, another one or impossible is one sentence.
"""

import json
import shutil
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file

import recap
from helpers.refusals import refused
from recap.core.checksums import record
from recap.core.documents import write_json
from recap.core.errors import ConfigError, DamagedFile, FeatureError, MissingFeatures, TrainingError
from recap.core.files import write_text
from recap.features.store import FeatureStore
from recap.plan import records
from recap.settings import DecodingSettings
from recap.share.run_files import find_run_files


@pytest.fixture
def copied(results, tmp_path):
    """The run folder alone, elsewhere."""
    return shutil.copytree(results.run, tmp_path / "copied")


@pytest.fixture
def files(results):
    """What a run folder alone does not have."""
    return {"vocabulary": results.data / "vocabulary.json", "features": [results.store]}


@pytest.fixture
def described_as(monkeypatch):
    """A function that changes what every feature store says of its extractor."""
    opened = FeatureStore.__init__

    def change(new):
        def other(self, *arguments):
            opened(self, *arguments)
            description = new(json.loads(self.attributes["extractor"]))
            self.attributes = {**self.attributes, "extractor": json.dumps(description)}

        monkeypatch.setattr(FeatureStore, "__init__", other)

    return change


def test_a_run_folder_alone_asks_for_each_file_and_works_with_them(
    results, files, photo, captioner, copied, tmp_path
):
    vocabulary = files["vocabulary"]
    with refused(ConfigError, copied, "--vocabulary FILE"):
        recap.load(copied)
    with refused(MissingFeatures, copied, "--features FILE"):
        recap.load(copied, vocabulary=vocabulary)
    moved = shutil.copy(results.store, tmp_path / "moved.h5")
    with refused(MissingFeatures, "--weights"):
        recap.load(copied, vocabulary=vocabulary, features=[moved])
    weights = shutil.copy(results.backbone, tmp_path / "weights.safetensors")
    whole = recap.load(copied, vocabulary=vocabulary, features=[moved], weights=weights)
    # without scores beside it, a run is searched by the defaults
    whole.decoding = captioner.decoding
    assert whole(photo) == captioner(photo)


def test_a_run_is_called_by_its_label_in_the_tables_beside_it(results, tmp_path):
    original = next(above.parent for above in results.run.parents if above.name == "runs")
    whole = Path(shutil.copytree(original, tmp_path / "results"))
    run = whole / results.run.relative_to(original)
    config = yaml.safe_load((run / "config.yaml").read_text())
    stage = config["stage"]
    assert (
        find_run_files(run).name
        == f"{config['spec']['model']} seed {config['spec']['seed']} {stage}"
    )
    row = {key: config["spec"][key] for key in ("dataset", "subset", "features", "model", "recipe")}
    row |= {"id": "a", "label": "A photo model", "stage": stage, "cells": {}}
    table = {
        "table": "t",
        "title": "T",
        "scale": "s",
        "baseline": "a",
        "seeds": [1],
        "columns": [],
        "rows": [row],
    }
    write_json(whole / "statistics" / "t.json", table)
    assert find_run_files(run).name == f"A photo model seed {config['spec']['seed']} {stage}"


def test_weights_are_first_looked_for_in_the_inputs_folder_that_the_workflow_used(
    results, described_as, tmp_path
):
    described_as(
        lambda _: {"kind": "grid", "backbone": "test_resnet", "weights": "weights/own.safetensors"}
    )
    for part in ("data", "features", "runs"):
        shutil.copytree(results.folder / part, tmp_path / "results" / "tiny" / part)
    run = tmp_path / "results" / "tiny" / "runs"
    with refused(MissingFeatures, "tiny.h5"):
        find_run_files(run)
    for inputs in ("resources", "own", tmp_path / "elsewhere"):
        weights = tmp_path / inputs / "weights" / "own.safetensors"
        weights.parent.mkdir(parents=True)
        weights.touch()
        write_text(tmp_path / "work" / "tiny" / records.INPUTS, f"{inputs}\n")
        (extractor,) = find_run_files(run).extractors
        assert extractor.weights == weights


def test_files_of_another_training_are_refused(results, files, copied, tmp_path):
    config = yaml.safe_load((copied / "config.yaml").read_text())
    (copied / "SHA256SUMS").unlink()
    hashes = {
        "vocabulary_hash": (ConfigError, "vocabulary.json"),
        "features_made_by": (FeatureError, "tiny.h5"),
    }
    for key, (kind, file) in hashes.items():
        (copied / "config.yaml").write_text(yaml.safe_dump({**config, key: "0" * 16}))
        with refused(kind, file, str(copied), "0" * 16):
            recap.load(copied, **files)
    (copied / "config.yaml").write_text(yaml.safe_dump(config))
    tensors = load_file(results.backbone)
    save_file(
        {name: tensor + 1 for name, tensor in tensors.items()}, tmp_path / "other.safetensors"
    )
    with refused(FeatureError, "other.safetensors", "tiny.h5"):
        recap.load(copied, **files, weights=tmp_path / "other.safetensors")


def test_of_several_runs_the_best_on_validation_is_taken_unless_data_sets_differ(
    results, files, tmp_path
):
    for name, score in (("a", 0.5), ("b", 0.9), ("c", 0.7)):
        run = shutil.copytree(results.run, tmp_path / "runs" / name)
        facts = {**json.loads((run / "training.json").read_text()), "dataset": "scenes"}
        write_json(run / "training.json", {**facts, "best_val_cider_d": score})
    assert find_run_files(tmp_path, **files).run == tmp_path / "runs" / "b"
    write_json(tmp_path / "runs" / "a" / "training.json", {**facts, "dataset": "flickr8k"})
    with refused(TrainingError, "flickr8k, scenes"):
        find_run_files(tmp_path, **files)
    with refused(TrainingError, results.data, "config.yaml", "model.safetensors"):
        find_run_files(results.data)


def test_weights_that_are_no_finite_floats_are_refused(files, copied):
    tensors = load_file(copied / "model.safetensors")
    name, value = next((name, value) for name, value in tensors.items() if value.dim() == 2)
    for wrong, named in (
        (value.index_fill(0, torch.tensor([0]), float("nan")), "NaN"),
        (value > 0, "torch.bool"),
    ):
        save_file({**tensors, name: wrong}, copied / "model.safetensors")  # without a digest
        with refused(TrainingError, "model.safetensors", f"'{name}'", named):
            recap.load(copied, **files, device="cpu")


def test_weights_that_give_no_probabilities_are_one_sentence(results, files, photo, copied):
    tensors = load_file(copied / "model.safetensors")
    save_file(
        {name: value * 0 + 3e38 for name, value in tensors.items()}, copied / "model.safetensors"
    )
    captioner = recap.load(copied, **files, device="cpu", weights=results.backbone)
    with refused(TrainingError, str(copied), "NaN", "token 1"):
        captioner(photo)


GRID = {"kind": "grid", "backbone": "test_resnet", "weights": "random"}
CROPS = {"kind": "crops", "boxes": "b", "backbone": "x", "weights": "random"}


@pytest.mark.parametrize(
    ("described", "error", "named"),
    [
        (lambda own: {**GRID, "image_size": 10**6}, ConfigError, "image_size"),
        (lambda own: CROPS, FeatureError, "'crops'"),
        (lambda own: GRID, FeatureError, "standardized"),
        (lambda own: {"kind": "holograms"}, FeatureError, "RECAP_PLUGINS"),
        (
            lambda own: own | {"preprocessing": own["preprocessing"] | {"mean": [0.0] * 3}},
            FeatureError,
            "preproc",
        ),
    ],
)
def test_features_that_a_photo_cannot_have_are_one_sentence(
    results, described_as, described, error, named
):
    described_as(described)
    with refused(error, named):
        recap.load(results.run, device="cpu")


def test_photos_are_searched_as_the_test_captions_were(results, tmp_path):
    whole = Path(shutil.copytree(results.folder, tmp_path / "results"))
    run, metrics = (
        whole / path.relative_to(results.folder)
        for path in (results.run, results.scores / "metrics.json")
    )
    wanted = DecodingSettings(beam=6, length_penalty=0.1234567, rules={"bad_endings": ["a", "on"]})
    written = {**json.loads(metrics.read_text()), "decoding": wanted.model_dump(mode="json")}
    write_json(metrics, written)
    record(metrics)
    assert find_run_files(run).decoding == wanted
    del written["decoding"]
    write_json(metrics, written)
    record(metrics)
    with refused(DamagedFile, "metrics.json"):
        find_run_files(run)
