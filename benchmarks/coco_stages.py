"""Stages of COCO-sized work from the annotations to a training's first step, and one epoch's
reading.

A stage gets its folder and `part`, which measures what is in its `with`; it returns how many items
the part works on. Stages are run in the order of `STAGES`; each reads what earlier ones wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn
from unittest.mock import patch

import numpy as np

if TYPE_CHECKING:
    from recap.models.images import Images
    from recap.runs.inputs import FeatureSources
    from recap.settings.recipes import RunSpec

Part = Callable[[], AbstractContextManager[None]]
# Vectors are read from this many images in real shapes;
# every further image takes the vectors of one of them.
STORED, FEWEST, MOST, WIDTH = 20_000, 36, 50, 2048
BATCH = 10


def corpus(folder: Path, part: Part) -> int:
    """Karpathy JSON -> corpus.parquet."""
    from recap.data.corpus import Corpus, build_corpus

    spec = {"kind": "karpathy", "annotations": "dataset.json", "images": ["images.zip"]}
    with part():
        build_corpus(name="coco", spec=spec, inputs=folder, out=folder)
    return len(Corpus.read(folder / "corpus.parquet").caption_id)


def vocabulary(folder: Path, part: Part) -> int:
    """corpus -> vocabulary.json, words seen five times."""
    from recap.data.corpus import Corpus
    from recap.data.vocabulary import build_vocabulary

    rule = {"min_count": 5, "max_length": 16}
    with part():
        build_vocabulary(
            corpus=folder / "corpus.parquet",
            rule=rule,
            inputs=folder,
            out=folder / "vocabulary.json",
        )
    return len(Corpus.read(folder / "corpus.parquet").rows("train"))


def card(folder: Path, part: Part) -> int:
    """corpus -> card.md."""
    from recap.data.card import write_card
    from recap.data.corpus import Corpus

    with part():
        write_card(
            name=("coco"), corpus=folder / "corpus.parquet", counts=None, out=folder / "card.md"
        )
    return len(Corpus.read(folder / "corpus.parquet").caption_id)


def subset(folder: Path, part: Part) -> int:
    """corpus -> the training captions, all of them."""
    from recap.data.subsets import draw_subset

    with part():
        found = draw_subset(
            corpus=folder / "corpus.parquet",
            name="full",
            fraction=1,
            unit="image",
            seed=0,
            out=folder / "subset.json",
        )
    return len(found["caption_ids"])


def captions_as_ids(folder: Path, part: Part) -> int:
    """The training captions as token ids."""
    from recap.data.corpus import Corpus
    from recap.data.subsets import read_subset
    from recap.data.vocabulary import load_vocabulary
    from recap.runs.inputs import split_captions

    table = Corpus.read(folder / "corpus.parquet")
    words = load_vocabulary(folder / "vocabulary.json")
    chosen = read_subset(folder / "subset.json")
    with part():
        split_captions(table, words, "train", chosen["caption_ids"])
    return len(chosen["caption_ids"])


def training_ids(folder: Path) -> Any:
    """Return the training captions as token ids."""
    from recap.data.corpus import Corpus
    from recap.data.subsets import read_subset
    from recap.data.vocabulary import load_vocabulary
    from recap.runs.inputs import split_captions

    words = load_vocabulary(folder / "vocabulary.json")
    chosen = read_subset(folder / "subset.json")["caption_ids"]
    return split_captions(Corpus.read(folder / "corpus.parquet"), words, "train", chosen)


def document_frequencies(folder: Path, part: Part) -> int:
    """The table of n-grams of self-critical training."""
    from recap.metrics.rewards import DocumentFrequencies

    captions = training_ids(folder)
    with part():
        found = DocumentFrequencies.of(captions)
    assert found.documents == len(captions)
    return sum(map(len, captions.values()))


def thin_store(folder: Path, part: Part) -> int:
    """A store of all images with one short vector each:
    what the start of a training needs is the index."""
    from benchmarks.features import store

    count = len(_images(folder))
    vector = np.ones((1, 8), np.float16)
    with part():
        store(folder / "thin.h5", range(count), lambda image: vector)
    return count


def start_xe(folder: Path, part: Part) -> int:
    """From files to the first step of cross-entropy training, with a model of width 16."""
    return _start("xe", folder, part)


def start_scst(folder: Path, part: Part) -> int:
    """From files to the first step of self-critical training, with a model of width 16."""
    return _start("scst", folder, part)


class FirstStep(Exception):
    """Ends a training before it."""


def _start(stage: str, folder: Path, part: Part) -> int:
    from recap.settings import Execution
    from recap.training.loop import Training
    from recap.training.run import train

    images: list[int] = []

    def first_step(training: Training) -> NoReturn:
        images.append(len(training.batches.captions))
        raise FirstStep

    with part(), patch.object(Training, "run", first_step), suppress(FirstStep):
        train(
            spec=_spec(stage),
            execution=Execution(device="cpu"),
            state=folder / "state",
            out=folder / "run",
            corpus=folder / "corpus.parquet",
            vocabulary=folder / "vocabulary.json",
            subset=folder / "subset.json",
            features=[folder / "thin.h5"],
            init=None,
        )
    return images[0]


def _spec(stage: str) -> RunSpec:
    from pydantic import TypeAdapter

    from recap.settings.recipes import RunSpec

    model = {
        "kind": ("transformer"),
        "d_model": 16,
        "heads": 2,
        "d_feed_forward": 16,
        "encoder_layers": 1,
    }
    names = {
        "dataset": "coco",
        "subset": "full",
        "features": "thin",
        "model": "small",
        "recipe": ("one_epoch"),
    }
    values = {
        **names,
        "seed": 1,
        "stage": stage,
        "stage_settings": {"epochs": 1, "learning_rate": 1e-4},
        "model_settings": {**model, "decoder_layers": 1},
    }
    found: RunSpec = TypeAdapter(RunSpec).validate_python(values)
    return found


def epoch(folder: Path, part: Part) -> int:
    """The second epoch's batches of ten images with features
    of 36 to 50 vectors of 2,048 and captions; no model."""
    from recap.runs.inputs import FeatureSources
    from recap.training.batches import CaptionBatches

    captions = training_ids(folder)
    store = _real_store(folder.parent / "real.h5", min(STORED, len(captions)))
    features = Repeated(FeatureSources([store]), min(STORED, len(captions)))
    batches = CaptionBatches(features=features, captions=captions, images_per_batch=BATCH, seed=1)
    for first in range(0, features.stored, 50):  # the first epoch compares checksums
        features.read(range(first, min(first + 50, features.stored)))
    with part():
        for batch in map(batches.batch, batches.order(1)):
            assert len(batch.images.main.values) == len(batch.tokens)
    return len(captions)


def caption_tensors(folder: Path, part: Part) -> int:
    """The captions of an epoch's batches alone."""
    from recap.training.batches import CaptionBatches

    class Nothing:
        def read(self, image_ids: Sequence[int]) -> Images:
            from recap.models.images import Images

            return Images({})

    captions = training_ids(folder)
    batches = CaptionBatches(features=Nothing(), captions=captions, images_per_batch=BATCH, seed=1)
    with part():
        for image_ids in batches.order(1):
            batches.batch(image_ids)
    return len(captions)


class Repeated:
    """Features of any number of images: image i has the vectors of image i modulo those stored."""

    def __init__(self, sources: FeatureSources, stored: int) -> None:
        self.sources, self.stored = sources, stored

    def read(self, image_ids: Sequence[int]) -> Images:
        """Return images in the order given."""
        return self.sources.read([image % self.stored for image in image_ids])


def _real_store(path: Path, images: int) -> Path:
    """Write a store of real shapes, unless one of so many images is there."""
    from benchmarks.features import store
    from recap.features.store import FeatureStore

    if path.is_file() and len(FeatureStore(path)) >= images:
        return path
    rng = np.random.default_rng(0)
    noise = np.maximum(rng.standard_normal((64, MOST, WIDTH), np.float32), 0).astype(np.float16)
    rows = rng.integers(FEWEST, MOST + 1, images)
    path.unlink(missing_ok=True)
    return store(path, range(images), lambda image: noise[image % 64, : rows[image]])


def validation(folder: Path, part: Part) -> int:
    """What a validation does beside decoding:
    references' n-grams, and CIDEr-D of a caption of each image."""
    from recap.data.corpus import Corpus
    from recap.data.vocabulary import load_vocabulary
    from recap.metrics.rewards import CiderD
    from recap.runs.inputs import split_captions

    table = Corpus.read(folder / "corpus.parquet")
    words = load_vocabulary(folder / "vocabulary.json")
    with part():
        references = split_captions(table, words, "val")
        scorer, images = CiderD(references), sorted(references)
        scorer.score(images, [references[image][0] for image in images])
    return len(images)


def evaluation(folder: Path, part: Part) -> int:
    """All metrics but SPICE of given captions of the test split; Java's CPU seconds are in it."""
    from recap.data.corpus import Corpus
    from recap.metrics.scores import evaluate_captions
    from recap.settings.recipes import DecodingSettings

    references = Corpus.read(folder / "corpus.parquet").captions("test")
    images = list(references)
    others = {
        image: references[images[(place + 1) % len(images)]][0]
        for place, image in enumerate(images)
    }
    with part():
        evaluate_captions(
            references=references,
            hypotheses=others,
            metrics=["BLEU", "METEOR", "ROUGE-L", "CIDEr"],
            split="test",
            split_hash="0" * 16,
            decoding=DecodingSettings(beam=1, max_length=20),
            out=folder / "scores",
        )
    return len(images)


def _images(folder: Path) -> Iterator[int] | list[int]:
    from recap.data.corpus import Corpus

    return Corpus.read(folder / "corpus.parquet").image_ids()


STAGES: dict[str, Callable[[Path, Part], int]] = {
    each.__name__: each
    for each in (
        corpus,
        vocabulary,
        card,
        subset,
        captions_as_ids,
        document_frequencies,
        thin_store,
        start_xe,
        start_scst,
        caption_tensors,
        epoch,
        validation,
        evaluation,
    )
}
