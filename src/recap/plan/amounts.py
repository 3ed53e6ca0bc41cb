"""How much a plan makes, before any file is there: images, captions, steps, and what one step works on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from recap.core.errors import ConfigError
from recap.plan.paths import Stores
from recap.plan.run import Run
from recap.plan.run_plan import RunPlan
from recap.plan.shared_stores import readers, sources
from recap.settings import Stage, Subset
from recap.settings.datasets import Counts, DatasetConfig
from recap.settings.features import FeaturesConfig, StoredStream

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


class Amounts:
    """Numbers of one plan, from its parameter files alone.

    Args:
        plan: the plan.
    """

    def __init__(self, plan: RunPlan) -> None:
        self.plan = plan
        self._sources_of: dict[str, set[str]] = {}

    def counts(self, dataset: str) -> Counts:
        """Return the images and captions of a data set."""
        counts = self._dataset(dataset).known_counts()
        if counts is None:
            raise UnknownSize(
                f"datasets/{dataset}.yaml: the size of the data set is not known; add "
                "`counts: {train: IMAGES, val: IMAGES, test: IMAGES, captions: CAPTIONS}`"
            )
        return counts

    def pictured(self, store: Stores) -> Counts:
        """Return the images of the first data set that reads a store; all of these have the same."""
        return self.counts(readers(self.plan, store.dataset, store.features)[0])

    def train_images(self, run: Run) -> int:
        """Return the training images of a run; of a draw of captions, the expected number."""
        counts = self.counts(run.dataset)
        share = image_share(self.plan.get("subsets", run.subset), counts.captions_per_image)
        return max(1, round(share * counts.train))

    def train_captions(self, run: Run) -> int:
        """Return the training captions of a run."""
        counts, subset = self.counts(run.dataset), self.plan.get("subsets", run.subset)
        return max(1, round(subset.fraction * counts.train * counts.captions_per_image))

    def steps(self, training: Run) -> int:
        """Return the optimizer steps of a training that no patience ends before its last epoch."""
        stage = self.stage(training)
        return stage.epochs * math.ceil(self.train_images(training) / stage.images_per_batch)

    def validations(self, training: Run) -> int:
        """Return how often a training decodes the validation images."""
        stage = self.stage(training)
        return math.ceil(stage.epochs / stage.validate_every) + (training.stage == "scst")

    def stage(self, training: Run) -> Stage:
        """Return the settings of a training."""
        recipe = self.plan.recipe(training.recipe)
        stage: Stage | None = recipe.xe if training.stage == "xe" else recipe.scst
        assert stage is not None  # the plan has no second stage without settings
        return stage

    def step_inputs(self, run: Run) -> StepInputs:
        """Return what a step of a run works on."""
        dataset = self._dataset(run.dataset)
        longest = dataset.vocabulary.max_length + 1
        words = min(longest, (dataset.caption_words or dataset.vocabulary.max_length) + 1)
        captions = self.train_captions(run) / self.train_images(run)
        return StepInputs(self.streams(run), dataset.vocabulary_ids, captions, words, self._longest(longest, words))

    def streams(self, run: Stores) -> dict[str, StoredStream]:
        """Return the streams of all stores of a run; none if a parameter file does not say their sizes."""
        stores = [self.stored(run.dataset, name) for name in self.plan.feature_names(run.features)]
        if not all(stores):
            return {}
        return {name: stream for store in stores for name, stream in store.items()}

    def stored(self, dataset: str, features: str) -> dict[str, StoredStream]:
        """Return the streams of one store: the vectors of all pictures of an image."""
        views = self._dataset(dataset).pictures_per_image()
        streams = self._features(features).stored(self._features)
        return {name: stream.of_views(views) for name, stream in streams.items()}

    def used_images(self, store: Stores) -> int:
        """Return how many images a feature store holds: the expected union of all draws, validation and test.

        The draws of one seed are nested, so that its largest counts; those of different seeds, and of data sets with
        the same pictures, are independent.
        """
        counts, sharing = self.pictured(store), readers(self.plan, store.dataset, store.features)
        largest: dict[tuple[str, int], float] = {}
        for run in self.plan.trained():
            if run.dataset in sharing and store.features in self._sources(run.features):
                share = image_share(self.plan.get("subsets", run.subset), counts.captions_per_image)
                draws = run.dataset, run.seed
                largest[draws] = max(share, largest.get(draws, 0.0))
        missed = math.prod(1 - share for share in largest.values())
        return round(counts.train * (1 - missed)) + counts.val + counts.test

    def _sources(self, features: str) -> set[str]:
        if features not in self._sources_of:
            self._sources_of[features] = sources(self.plan, features)
        return self._sources_of[features]

    def _longest(self, limit: int, words: float) -> int:
        return min(limit, math.ceil(_LONGEST * words))

    def _dataset(self, name: str) -> DatasetConfig:
        found: DatasetConfig = self.plan.get("datasets", name)
        return found

    def _features(self, name: str) -> FeaturesConfig:
        found: FeaturesConfig = self.plan.get("features", name)
        return found


def image_share(subset: Subset, captions_per_image: float) -> float:
    """Return the expected share of the training images that a subset has.

    Of a share f of all pairs, an image with c captions is without any with probability (1 - f)^c.
    """
    if subset.unit == "image" or subset.fraction == 1:
        return subset.fraction
    return float(1 - (1 - subset.fraction) ** captions_per_image)
