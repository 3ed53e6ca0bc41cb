"""Results of a tiny profile, made by the functions
that the workflow's commands call: from scenes to scores."""

import zipfile
from dataclasses import dataclass
from pathlib import Path

from helpers.prepared import write_scenes
from recap.settings.features import Features
from recap.settings.params import validate
from recap.settings.recipes import EvaluationSpec, Execution, RunSpec

MODEL = {"kind": "transformer", "d_model": 32, "heads": 2, "d_feed_forward": 32}
MODEL |= {"encoder_layers": 1, "decoder_layers": 1}
GRID = {
    "kind": "grid",
    "backbone": "test_resnet",
    "weights": "boxes",
    "out_index": 3,
    "image_size": 64,
    "grid": 2,
}
GRID |= {"pretraining": {"epochs": 1}, "batch_size": 4, "shard_size": 6}
RUN = "scenes/full/tiny/transformer@short/seed-1/xe"


@dataclass
class TinyResults:
    """The folder `results/<profile>`, with those of its one run
    and of the scores of the run's test captions."""

    folder: Path

    @property
    def run(self):
        return self.folder / "runs" / RUN

    @property
    def scores(self):
        return self.folder / "scores" / RUN

    @property
    def data(self):
        return self.folder / "data" / "scenes"

    @property
    def store(self):
        return self.folder / "features" / "scenes" / "tiny.h5"

    @property
    def backbone(self):
        return self.store.with_suffix(".backbone.safetensors")

    def photos(self):
        """Unpack the pictures; return those of the test split: image id -> path."""
        from recap.data.corpus import Corpus

        with zipfile.ZipFile(self.data / "images.zip") as archive:
            archive.extractall(self.folder / "photos")
        table = Corpus.read(self.data / "corpus.parquet")
        return {
            image: self.folder / "photos" / table.files()[image]
            for image in table.image_ids("test")
        }


def make_results(folder):
    """Make corpus, vocabulary, subset, backbone, features, a run and its scores, in seconds."""
    from recap.evaluation.decode import evaluate
    from recap.features.extraction import ExtractionJob
    from recap.features.grid import extract_grid
    from recap.features.training import pretrain
    from recap.training.run import train

    result, cpu = TinyResults(folder), {"device": "cpu", "threads": 1}
    computed = Execution(**cpu)
    corpus = write_scenes(
        result.data, "scenes", train=24, val=4, test=6, size=64, vocabulary={"min_count": 1}
    )
    grid, images = validate(Features, GRID, "features"), [result.data / "images.zip"]
    pretrain(spec=grid, boxes=result.data / "boxes.json", images=images, out=result.backbone, **cpu)
    job = ExtractionJob(
        corpus, images, folder, folder / "shards", result.store, trained=result.backbone, **cpu
    )
    extract_grid(grid, job)
    names = {
        "dataset": "scenes",
        "subset": "full",
        "features": "tiny",
        "model": "transformer",
        "recipe": "short",
    }
    stage = {"epochs": 20, "learning_rate": 0.02, "images_per_batch": 8}
    spec = {**names, "seed": 1, "stage": "xe", "model_settings": MODEL, "stage_settings": stage}
    files = {
        "corpus": corpus,
        "vocabulary": result.data / "vocabulary.json",
        "features": [result.store],
    }
    subset, state = result.data / "subset.json", folder / "state"
    run = validate(RunSpec, spec, "spec")
    train(
        spec=run, execution=computed, **files, subset=subset, init=None, state=state, out=result.run
    )
    settings = {
        "beam": 4,
        "max_length": 9,
        "n_best": 2,
        "metrics": ["BLEU"],
        "rules": {"no_repeated_ngram": 2},
    }
    asked = validate(EvaluationSpec, {"evaluation": settings}, "spec")
    evaluate(spec=asked, execution=computed, **files, model=[result.run], out=result.scores)
    return result
