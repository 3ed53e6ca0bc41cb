"""The feature stores of a plan.

Data sets over the same pictures share a store, in a folder with the name of their lowest such
``base:``. It holds the images that some run reads: what subsets draw, and all images for validation
and test.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from recap.plan.plan import Plan
from recap.plan.run import Run
from recap.settings.features import FeaturesConfig


@dataclass(frozen=True)
class Store:
    """A feature store."""

    dataset: str  #: with whose name its folder is
    features: str
    settings: FeaturesConfig
    readers: tuple[str, ...]  #: the data sets of the plan that have these pictures
    trainings: tuple[Run, ...]  #: those that read it, or a store that is made from it
    #: whether captions of its pictures are sent to COCO's server, so that all of val2014 is needed
    sent: bool


def used_stores(plan: Plan) -> list[Store]:
    """Return the stores that a plan reads, and those that these are made from."""
    todo: list[tuple[str, str]] = []
    for run in plan.shown:
        folder = plan.settings.same_pictures(run.dataset)
        todo += [(folder, name) for name in run.features.split("+")]
    names = dict.fromkeys(todo)
    for folder, name in todo:
        for each in plan.settings.features(name).input_features().values():
            if (folder, each) not in names:
                names[folder, each] = None
                todo.append((folder, each))
    return [_store(plan, *name) for name in names]


def _store(plan: Plan, folder: str, features: str) -> Store:
    readers = [name for name in plan.datasets if plan.settings.same_pictures(name) == folder]
    parts = {run.features for run in plan.shown}
    reading = {part for part in parts if features in with_sources(plan, part)}
    sent = (each.run for each in plan.submissions)
    return Store(
        dataset=folder,
        features=features,
        settings=plan.settings.features(features),
        readers=tuple(readers),
        trainings=tuple(_read_by(plan.trained, readers, reading)),
        sent=any(_read_by(sent, readers, reading)),
    )


def _read_by(runs: Iterable[Run], datasets: Iterable[str], features: Iterable[str]) -> list[Run]:
    return [run for run in runs if run.dataset in datasets and run.features in features]


def with_sources(plan: Plan, part: str) -> set[str]:
    """Return the features of a part of a path, with those that they are made from."""
    todo = part.split("+")
    for name in todo:
        todo += plan.settings.features(name).input_features().values()
    return set(todo)
