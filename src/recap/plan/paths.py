"""Where the files of a profile are: those that the workflow makes, and the outside ones below its `inputs`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from recap.plan.outside_rows import ScoredFile
from recap.plan.run import Run
from recap.plan.run_plan import RunPlan
from recap.plan.shared_stores import readers, store_folder
from recap.plan.submissions import Submission
from recap.settings import ModelConfig
from recap.settings.base import HUB
from recap.settings.datasets import PICTURES
from recap.settings.models import LANGUAGE_MODEL

RUN_FILES = ("config.yaml", "model.safetensors", "history.csv", "training.json")
SUBSETS = "subsets"  # folder of a data set's draws
SCORE_FILES = ("captions.test.json", "scores.test.parquet", "metrics.json")


class Stores(Protocol):
    """Names the feature stores of a data set, one or several joined by ``+``: a run, or the wildcards of a rule.

    Of one store it may also be the folder that it lies in, which is the name of a data set with the same pictures.
    """

    @property
    def dataset(self) -> str:
        """Name of the data set."""

    @property
    def features(self) -> str:
        """Name of the features."""


class Paths:
    """The paths of a plan's files, relative to the working folder, as rules and commands name them.

    Attributes:
        plan: whose profile names the folders.
        results, reports, logs, work: the four folders of the profile.
    """

    def __init__(self, plan: RunPlan) -> None:
        self.plan = plan
        kinds = ("results", "reports", "logs", "work")
        self.results, self.reports, self.logs, self.work = (f"{kind}/{plan.profile.name}" for kind in kinds)

    def outside(self, name: str) -> str:
        """Return the path of a file that the profile's `inputs` folder must hold."""
        return str(Path(self.plan.profile.inputs) / name)

    def of_dataset(self, dataset: str, name: str) -> str:
        """Return the path of a file of a data set: ``corpus.parquet``, ``vocabulary.json``, ``card.md``."""
        return f"{self.results}/data/{dataset}/{name}"

    def corpus(self, run: Run) -> str:
        """Return the captions of a run's data set."""
        return self.of_dataset(run.dataset, "corpus.parquet")

    def vocabulary(self, run: Run) -> str:
        """Return the vocabulary of a run's data set."""
        return self.of_dataset(run.dataset, "vocabulary.json")

    def card(self, run: Run) -> str:
        """Return the description of a run's data set."""
        return self.of_dataset(run.dataset, "card.md")

    def subset(self, run: Run) -> str:
        """Return the training captions that a run sees."""
        return self.of_dataset(run.dataset, f"{SUBSETS}/{run.subset}/seed-{run.seed}.json")

    def images(self, dataset: str) -> list[str]:
        """Return folders or zips with the pictures of a data set."""
        sources = self.plan.get("datasets", dataset).picture_sources()
        return [self.outside(name) for name in sources] or [self.of_dataset(dataset, PICTURES)]

    def outside_files(self, section: str, name: str) -> list[str]:
        """Return the outside files that ``params/<section>/<name>.yaml`` names."""
        return [self.outside(file) for file in self.plan.get(section, name).outside_files()]

    def tokenizer(self, dataset: str) -> list[str]:
        """Return the outside files of a data set's byte pairs: none for words and for the hub."""
        return [self.outside(file) for file in self.plan.get("datasets", dataset).vocabulary.outside_files()]

    def store(self, dataset: str, features: str) -> str:
        """Return a feature store; as below, the data set is the one whose name its folder has."""
        return f"{self.results}/features/{dataset}/{features}.h5"

    def features(self, run: Stores) -> list[str]:
        """Return the stores of a run, one for each of its features."""
        return [self.store(self._folder(run, name), name) for name in self.plan.feature_names(run.features)]

    def corpora(self, store: Stores) -> list[str]:
        """Return the captions of the data sets that read a store; each has all of its pictures."""
        return [self.of_dataset(name, "corpus.parquet") for name in readers(self.plan, store.dataset, store.features)]

    def used_images(self, dataset: str, features: str) -> str:
        """Return the list of the images that a store must hold."""
        return f"{self.results}/features/{dataset}/{features}.images.txt"

    def extractor(self, dataset: str, features: str) -> str:
        """Return the note of what makes a store, which stays the same while the store grows."""
        return f"{self.results}/features/{dataset}/{features}.extractor.json"

    def extractors(self, run: Stores) -> list[str]:
        """Return the notes of what makes the stores of a run."""
        return [self.extractor(self._folder(run, name), name) for name in self.plan.feature_names(run.features)]

    def backbone(self, dataset: str, features: str) -> str:
        """Return the weights of an extractor that are trained first."""
        return f"{self.results}/features/{dataset}/{features}.backbone.safetensors"

    def trained_backbone(self, run: Stores) -> list[str]:
        """Return the weights of an extractor, if they must be trained first, on boxes or captions."""
        trained = self.plan.get("features", run.features).trained_on()
        return [self.backbone(self._folder(run, run.features), run.features)] if trained else []

    def made_from(self, run: Stores) -> list[str]:
        """Return the notes of what makes the stores that a store is made from."""
        settings = self.plan.get("features", run.features)
        names = (settings.boxes_from(), settings.cells_from())
        return [self.extractor(self._folder(run, name), name) for name in names if name]

    def boxes(self, run: Stores) -> list[str]:
        """Return the store whose boxes are cut out, if any."""
        name = self.plan.get("features", run.features).boxes_from()
        return [self.store(self._folder(run, name), name)] if name else []

    def cells(self, run: Stores) -> list[str]:
        """Return the store whose grid is pooled, if any."""
        name = self.plan.get("features", run.features).cells_from()
        return [self.store(self._folder(run, name), name)] if name else []

    def _folder(self, run: Stores, features: str) -> str:
        return store_folder(self.plan, run.dataset, features)

    def language_model(self, dataset: str, name: str) -> str:
        """Return the weights of a language model; its report has the suffix ``.json``."""
        return f"{self.results}/features/{dataset}/{name}.language_model.safetensors"

    def pretrained(self, run: Run, model: ModelConfig | None = None) -> list[str]:
        """Return the file of weights that a run's model begins with, if any: of a language model, or an outside file.

        Args:
            run: the run.
            model: settings in place of those that the run names.
        """
        source = (model or self.plan.get("models", run.model)).pretrained_weights()
        if source is None or source.startswith(HUB):
            return []
        if source.startswith(LANGUAGE_MODEL):
            return [self.language_model(run.dataset, source.removeprefix(LANGUAGE_MODEL))]
        return [self.outside(source)]

    def run(self, run: Run) -> list[str]:
        """Return what a training leaves."""
        return [f"{self.results}/runs/{run.path}/{name}" for name in RUN_FILES]

    def weights(self, training: Run) -> str:
        """Return the weights of a training."""
        return f"{self.results}/runs/{training.path}/model.safetensors"

    def scores(self, run: Run) -> list[str]:
        """Return what an evaluation leaves."""
        return [f"{self.results}/scores/{run.path}/{name}" for name in SCORE_FILES]

    def outside_scores(self, scored: ScoredFile) -> list[str]:
        """Return the scores of a file of captions, as an evaluation leaves them."""
        return [f"{self.results}/scores/{scored.path}/{name}" for name in SCORE_FILES]

    def captions_of(self, run: Run, part: str) -> str:
        """Return the captions of a part of COCO by a scored run, in COCO's results form."""
        return f"{self.results}/scores/{run.path}/captions.{part}.json"

    def figure(self, name: str) -> str:
        """Return a file of a figure."""
        return f"{self.reports}/figures/{name}"

    def submission(self, algorithm: str) -> str:
        """Return the folder of what COCO's server is sent of a run, and of what it answers."""
        return f"{self.reports}/server/{algorithm}"

    def submission_files(self, submission: Submission) -> list[str]:
        """Return what COCO's server is sent of a run: the zip, and the two files in it."""
        folder = self.submission(submission.algorithm)
        return [f"{folder}/{name}" for name in submission.files()]

    def training_inputs(self, run: Run, model: ModelConfig | None = None) -> dict[str, Any]:
        """Return the files that a training reads, as the inputs of its rule: one or a list by name.

        Args:
            run: a training stage.
            model: settings in place of those that the run names.
        """
        files: dict[str, Any] = {
            "corpus": self.corpus(run),
            "vocabulary": self.vocabulary(run),
            "subset": self.subset(run),
            "features": self.features(run),
            "extractors": self.extractors(run),
        }
        if run.stage == "scst":
            return files | {"init": self.weights(self.plan.first_stage(run))}
        return files | {"weights": self.pretrained(run, model)}
