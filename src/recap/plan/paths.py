"""Where the files of a profile are:
those that the workflow makes, and the outside ones below its `inputs`.

Data sets over the same pictures share a feature store, in a folder with the name of their lowest
such ``base:``. It holds the images that some run reads: what subsets draw, and all images for
validation and test.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from recap.plan.run import VAL, Run, ScoredFile
from recap.plan.run_plan import RunPlan
from recap.settings import ModelConfig
from recap.settings.base import HUB
from recap.settings.datasets import PICTURES, ConceptualDataset
from recap.settings.models import LANGUAGE_MODEL

RUN_FILES = ("config.yaml", "model.safetensors", "history.csv", "training.json")
EXTRACTOR = "extractor.json"  # ending of the note of what makes a store
SUBSETS = "subsets"  # folder of a data set's draws
SCORE_FILES = ("captions.test.json", "scores.test.parquet", "metrics.json")


class Paths:
    """The paths of a plan's files, as rules and commands name them.

    Wildcards of a rule may stand for a run.
    """

    def __init__(self, plan: RunPlan) -> None:
        self.plan = plan
        kinds = ("results", "reports", "logs", "work")
        self.results, self.reports, self.logs, self.work = (
            f"{plan.folder}{kind}/{plan.profile.name}" for kind in kinds
        )

    def outside(self, name: str) -> str:
        """Return the path of a file that the profile's `inputs` folder must hold."""
        return str(Path(self.plan.profile.inputs) / name)

    def of_dataset(self, dataset: str | Run | ScoredFile, name: str) -> str:
        """Return a file of a data set, or of that of a run: ``corpus.parquet``,
        ``vocabulary.json``, ``card.md``."""
        return (
            f"{self.results}/data/{dataset if isinstance(dataset, str) else dataset.dataset}/{name}"
        )

    def subset(self, run: Run) -> str:
        """Return the training captions that a run sees."""
        return self.of_dataset(run, f"{SUBSETS}/{run.subset}/seed-{run.seed}.json")

    def images(self, dataset: str) -> list[str]:
        """Return folders or zips with the pictures of a data set."""
        sources = self.plan.get("datasets", dataset).picture_sources()
        return [self.outside(name) for name in sources] or [self.of_dataset(dataset, PICTURES)]

    def outside_files(self, section: str, name: str, part: str = "") -> list[str]:
        """Return the outside files that ``params/<section>/<name>.yaml``, or a part, names."""
        settings = self.plan.get(section, name)
        return [
            self.outside(file)
            for file in (getattr(settings, part) if part else settings).outside_files()
        ]

    def store(self, dataset: str, features: str, ending: str = "h5") -> str:
        """Return a feature store, or its images,
        note of its extractor or trained backbone, in a data set's folder."""
        return f"{self.results}/features/{dataset}/{features}.{ending}"

    def stores(
        self, run: Run | ScoredFile, names: Iterable[str | None], ending: str = "h5"
    ) -> list[str]:
        """Return the stores of a run's data set with some features, or files beside them.

        None stands for no store.
        """
        return [
            self.store(self.plan.same_pictures(run.dataset), name, ending) for name in names if name
        ]

    def features(self, run: Run | ScoredFile, ending: str = "h5") -> list[str]:
        """Return the stores of a run, one for each of its features, or files beside them."""
        return self.stores(run, self.plan.feature_names(run.features), ending)

    def trained_backbone(self, run: Run) -> list[str]:
        """Return the weights of an extractor, if they must be trained first, on boxes."""
        trained = self.plan.get("features", run.features).trained_on_boxes()
        return self.stores(run, [run.features], "backbone.safetensors") if trained else []

    def pretrained(self, run: Run, model: ModelConfig | None = None) -> list[str]:
        """Return the file of weights that a run's model or another `model` begins with, if any."""
        source = (model or self.plan.get("models", run.model)).pretrained_weights()
        if source is None or source.startswith(HUB):
            return []
        if source.startswith(LANGUAGE_MODEL):
            name = source.removeprefix(LANGUAGE_MODEL)
            return [self.store(run.dataset, name, "language_model.safetensors")]
        return [self.outside(source)]

    def run(self, run: Run) -> list[str]:
        """Return what a training leaves."""
        return [f"{self.results}/runs/{run.path}/{name}" for name in RUN_FILES]

    def weights(self, training: Run) -> str:
        """Return the weights of a training."""
        return f"{self.results}/runs/{training.path}/model.safetensors"

    def scores(self, scored: Run | ScoredFile) -> list[str]:
        """Return what an evaluation leaves."""
        return [f"{self.results}/scores/{scored.path}/{name}" for name in SCORE_FILES]

    def is_scored(self, scored: Run | ScoredFile) -> bool:
        """Return whether the scores of a run are there."""
        return all(Path(file).is_file() for file in self.scores(scored))

    def training_inputs(self, run: Run, model: ModelConfig | None = None) -> dict[str, Any]:
        """Return the files that a training stage reads, by input of its rule: one or a list."""
        files: dict[str, Any] = {
            "corpus": self.of_dataset(run, "corpus.parquet"),
            "vocabulary": self.of_dataset(run, "vocabulary.json"),
            "subset": self.subset(run),
            "features": self.features(run),
            "extractors": self.features(run, EXTRACTOR),
        }
        if run.stage == "scst":
            return files | {"init": self.weights(self.plan.first_stage(run))}
        return files | {"weights": self.pretrained(run, model)}


def data_files(paths: Paths) -> list[str]:
    """Return corpora, packed pictures, cards, vocabularies and subsets of all runs."""
    files: set[str] = set()
    for run in paths.plan.scored():
        files |= {paths.of_dataset(run, "vocabulary.json"), paths.of_dataset(run, "card.md")}
        files.add(paths.subset(run))
    files |= {paths.of_dataset(run, "corpus.parquet") for run in paths.plan.shown()}
    for dataset in paths.plan.datasets():
        pictures = paths.images(dataset)
        files |= {file for file in pictures if file.startswith(f"{paths.results}/")}
    return sorted(files)


def feature_files(paths: Paths) -> list[str]:
    """Return the stores of all runs, those that they are made from,
    their notes, and weights that are trained first."""
    files: set[str] = set()
    for run in used_stores(paths.plan):
        files |= {
            paths.store(run.dataset, run.features, ending)
            for ending in ("h5", "images.txt", EXTRACTOR)
        }
        files |= set(paths.trained_backbone(run))
    for run in paths.plan.scored():
        for file in paths.pretrained(run):
            if file.startswith(f"{paths.results}/"):
                files |= {file, str(Path(file).with_suffix(".json"))}
    return sorted(files)


def used_features(plan: RunPlan) -> list[str]:
    """Return the features of all rows, and those whose boxes or cells others need."""
    return sorted({run.features for run in used_stores(plan)})


def used_stores(plan: RunPlan) -> list[Run]:
    """Return a run for each store in use, with the data set whose name its folder has."""
    todo: list[Run] = []
    for run in plan.shown():
        todo += [replace(run, features=name) for name in plan.feature_names(run.features)]
    stores: dict[tuple[str, str], Run] = {}
    for run in todo:
        folder = plan.same_pictures(run.dataset)
        if (folder, run.features) not in stores:
            stores[folder, run.features] = replace(run, dataset=folder)
            todo += [replace(run, features=name) for name in input_features(plan, run.features)]
    return list(stores.values())


def readers(plan: RunPlan, dataset: str) -> list[str]:
    """Return the data sets of a plan whose stores lie in the folder of a data set's."""
    folder = plan.same_pictures(dataset)
    return [name for name in plan.datasets() if plan.same_pictures(name) == folder] or [folder]


def sources(plan: RunPlan, features: str) -> set[str]:
    """Return the features of a run, with those whose boxes or cells they are made from."""
    todo = list(plan.feature_names(features))
    for name in todo:
        todo += [each for each in input_features(plan, name) if each not in todo]
    return set(todo)


def input_features(plan: RunPlan, features: str) -> list[str]:
    """Return the features whose boxes or cells features are made from."""
    return list(plan.get("features", features).input_features().values())


def reading_runs(plan: RunPlan, store: Run) -> list[Run]:
    """Return the trainings that read a feature store, or one that is made from it."""
    sharing, trained = readers(plan, store.dataset), plan.trained()
    every = {run.features for run in trained}
    features = {name for name in every if store.features in sources(plan, name)}
    return [run for run in trained if run.dataset in sharing and run.features in features]


def used_subsets(paths: Paths, store: Run) -> list[str]:
    """Return the subsets of all runs that read a feature store, or one that is made from it."""
    # The whole training split is the same with every seed: the first stands for all.
    subsets: dict[tuple[str, str, int | None], str] = {}
    for run in reading_runs(paths.plan, store):
        whole = paths.plan.get("subsets", run.subset).fraction == 1
        subsets.setdefault(
            (run.dataset, run.subset, None if whole else run.seed), paths.subset(run)
        )
    return sorted(subsets.values())


def sent_parts(paths: Paths, store: Run) -> list[str]:
    """Return the parts of COCO whose captions go to a server: all their pictures need features."""
    plan = paths.plan
    sharing = readers(plan, store.dataset)
    runs = [each.run for each in plan.submissions() if each.run.dataset in sharing]
    return [VAL] if any(store.features in sources(plan, run.features) for run in runs) else []


def corpora_of(paths: Paths, store: Run, subsets: list[str]) -> list[str]:
    """Return the corpora that a list of images is made from: of the data sets that read the store,
    and of subsets."""
    reading = readers(paths.plan, store.dataset)
    drawn_from = {str(Path(file).parents[2] / "corpus.parquet") for file in subsets}
    return sorted({paths.of_dataset(name, "corpus.parquet") for name in reading} | drawn_from)


def not_fewer(wanted: list[str], recorded: list[str]) -> list[str]:
    """Return the subsets that a list of images was made
    from if it serves these, too, so that it stays; else these."""
    before = sorted(
        {
            file
            for file in recorded
            if Path(file).parent.parent.name == SUBSETS and Path(file).exists()
        }
    )
    return before if set(wanted) <= set(before) else wanted


def web_draws(paths: Paths, survivors: str) -> dict[str, Any]:
    """Return by data set what runs draw from a list of fetched web pictures.

    Nothing where all are fetched.
    """
    draws_of: dict[str, Any] = {}
    for name in paths.plan.datasets():
        settings = paths.plan.get("datasets", name)
        if not isinstance(settings, ConceptualDataset) or settings.survival is None:
            continue
        # the first list is of training pictures
        if paths.outside(next(iter(settings.web_pictures()))) == survivors:
            runs = sorted(
                {(run.subset, run.seed) for run in paths.plan.trained() if run.dataset == name}
            )
            draws = [paths.plan.spec("subsets", subset) | {"seed": seed} for subset, seed in runs]
            own = settings.model_dump(include={"seed", "survival"})
            draws_of[name] = {"held_out": settings.val_pairs, "draws": draws, **own}
    return draws_of
