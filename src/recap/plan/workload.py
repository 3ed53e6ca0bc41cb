"""How much a plan makes, before any file is there: images, captions, steps and their sizes."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

from recap.core.errors import ConfigError
from recap.plan.plan import Plan
from recap.plan.run import Run
from recap.plan.stores import Store
from recap.settings import DecodingSettings, ModelConfig, SelfCritical, Stage, Subset
from recap.settings.datasets import Counts
from recap.settings.features import StoredStream
from recap.settings.recipes import warn_of_short_training

Work = Literal["xe", "scst", "decode"]
_LONGEST = 1.5  # of a batch's captions, as a multiple of the mean


class UnknownSize(ConfigError):
    """A parameter file does not say how large something is."""


@dataclass(frozen=True)
class StepInputs:
    """What one step of a training, or the decoding of one image, works on."""

    #: of an image, the main one first; empty where a parameter file does not say their sizes
    streams: Mapping[str, StoredStream]
    ids: int | None  #: of the vocabulary; None where it is not known
    captions: float  #: of a training image
    words: float  #: tokens of a caption, with its end
    longest: int  #: tokens of the longest caption of a batch

    @property
    def vectors(self) -> float:
        """Vectors of an image, of all streams."""
        return sum(stream.vectors for stream in self.streams.values())


@dataclass(frozen=True)
class StepShape:
    """A stage's optimizer step, or decoding of a batch: all that decides what it computes."""

    work: Work
    model: ModelConfig  #: settings of the model
    settings: Stage | DecodingSettings  #: of the stage, or of the search
    inputs: StepInputs
    images: int  #: of a step of one process, or of a batch that is decoded

    @property
    def sizes(self) -> dict[str, int]:
        """The whole numbers among the model's settings: equal ones compute much the same."""
        settings = self.model.model_dump(mode="json")
        return {name: value for name, value in settings.items() if type(value) is int}

    @property
    def tokens(self) -> float:
        """Tokens that are decoded for an image: of its captions, samples or beams."""
        if isinstance(self.settings, SelfCritical):
            return self.settings.samples * self.inputs.longest
        if isinstance(self.settings, DecodingSettings):
            return self.settings.beam * self.inputs.longest
        return self.inputs.captions * self.inputs.words


class Workload:
    """Numbers of one plan, from its parameter files alone."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def counts(self, dataset: str) -> Counts:
        """Return the images and captions of a data set."""
        counts = self.plan.settings.dataset(dataset).known_counts()
        if counts is None:
            key = "`counts: {train: IMAGES, val: IMAGES, test: IMAGES, captions: CAPTIONS}`"
            raise UnknownSize(
                f"datasets/{dataset}.yaml: the size of the data set is not known; add {key}"
            )
        return counts

    def train_images(self, run: Run) -> int:
        """Return the training images of a run; of a draw of captions, the expected number."""
        counts = self.counts(run.dataset)
        share = image_share(self.plan.settings.subset(run.subset), counts.captions_per_image)
        return max(1, round(share * counts.train))

    def stage(self, training: Run) -> Stage:
        """Return the settings of a training."""
        return getattr(self.plan.settings.recipe(training.recipe), training.stage)

    def steps(self, training: Run) -> int:
        """Return the optimizer steps of a training, if no patience ends it earlier."""
        stage = self.stage(training)
        of_epoch = math.ceil(self.train_images(training) / stage.images_per_batch)
        return stage.epochs * min(of_epoch, stage.steps_per_epoch or of_epoch)

    def warn_of_short_trainings(self) -> None:
        """Warn of recipes whose trainings end within their warm-up.

        Where a size is not known, only these can.
        """
        each = {(run.dataset, run.subset, run.recipe, run.stage): run for run in self.plan.trained}
        for names, run in each.items():
            with suppress(UnknownSize):
                warn_of_short_training("/".join(names), self.stage(run).schedule, self.steps(run))

    def shapes(self) -> list[StepShape]:
        """Return what can be measured for the plan: a step of each kind, work and size of model."""
        trainings = [self.training_shape(run) for run in self.plan.trained]
        decodings = [self.decoding_shape(run.parts()[0]) for run in self.plan.scored]
        first: dict[tuple[str, str, str], StepShape] = {}
        for shape in [*trainings, *decodings]:
            if shape.inputs.streams and shape.inputs.ids:
                first.setdefault((shape.model.kind, shape.work, str(shape.sizes)), shape)
        return list(first.values())

    def training_shape(self, training: Run) -> StepShape:
        """Return the shape of a training's steps; `processes` share the images of a step."""
        stage = self.stage(training)
        processes = self.plan.settings.recipe(training.recipe).processes
        images = max(1, min(stage.images_per_batch // processes, self.train_images(training)))
        work: Work = "xe" if training.stage == "xe" else "scst"
        return StepShape(
            work,
            self.plan.settings.model(training.model),
            stage,
            self.step_inputs(training),
            images,
        )

    def decoding_shape(self, run: Run, *, beam: int | None = None) -> StepShape:
        """Return the shape of decoding a batch by a run's recipe, or with another beam."""
        decoding: DecodingSettings = self.plan.settings.recipe(run.recipe).evaluation.decoding
        if beam is not None:
            decoding = DecodingSettings(beam=beam)
        model = self.plan.settings.model(run.model)
        return StepShape("decode", model, decoding, self.step_inputs(run), decoding.batch_size)

    def step_inputs(self, run: Run) -> StepInputs:
        """Return what a step of a run works on."""
        dataset, counts = self.plan.settings.dataset(run.dataset), self.counts(run.dataset)
        longest = dataset.vocabulary.max_length + 1
        words = min(longest, (dataset.caption_words or dataset.vocabulary.max_length) + 1)
        fraction = self.plan.settings.subset(run.subset).fraction
        captions = max(1, round(fraction * counts.train * counts.captions_per_image))
        sizes = captions / self.train_images(run), words, min(longest, math.ceil(_LONGEST * words))
        return StepInputs(self.streams(run), dataset.vocabulary_ids, *sizes)

    def streams(self, run: Run) -> dict[str, StoredStream]:
        """Return the streams of all stores of a run.

        None if a parameter file does not say their sizes.
        """
        streams: dict[str, StoredStream] = {}
        for name in run.features.split("+"):
            store = self.stored(run.dataset, name)
            if not store:
                return {}
            streams |= store
        return streams

    def stored(self, dataset: str, features: str) -> dict[str, StoredStream]:
        """Return the streams of one store: the vectors of all pictures of an image."""
        views = self.plan.settings.dataset(dataset).pictures_per_image()
        streams = self.plan.settings.features(features).stored(self.plan.settings.features)
        return {
            name: replace(stream, vectors=stream.vectors * views)
            for name, stream in streams.items()
        }

    def used_images(self, store: Store) -> int:
        """Return how many images a store holds: the expected union of draws, validation, test."""
        # The draws of one seed are nested, so that its largest counts; others are independent.
        # All data sets that read a store have the same pictures.
        counts = self.counts(store.readers[0])
        largest: defaultdict[tuple[str, int], float] = defaultdict(float)
        for run in store.trainings:
            share = image_share(self.plan.settings.subset(run.subset), counts.captions_per_image)
            largest[run.dataset, run.seed] = max(share, largest[run.dataset, run.seed])
        missed = math.prod(1 - share for share in largest.values())
        return round(counts.train * (1 - missed)) + counts.val + counts.test


def image_share(subset: Subset, captions_per_image: float) -> float:
    """Return the expected share of the training images that a subset has:
    of a share f of pairs, 1 - (1 - f)^c."""
    return (
        subset.fraction
        if subset.unit == "image"
        else 1 - (1 - subset.fraction) ** captions_per_image
    )
