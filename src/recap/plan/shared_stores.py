"""Which data sets share a feature store: those over the same pictures, whatever their captions and vocabularies are.

A store lies in a folder with the name of a data set: the lowest ``base:`` of its own with the same pictures, which no
table asked for beside it changes.
"""

from __future__ import annotations

from recap.plan.run_plan import RunPlan


def store_folder(plan: RunPlan, dataset: str, features: str) -> str:
    """Return the data set whose name the stores of a data set have; features that learn from captions are its own."""
    learned = any(plan.get("features", name).trained_on() == "captions" for name in sources(plan, features))
    return dataset if learned else plan.same_pictures(dataset)


def readers(plan: RunPlan, dataset: str, features: str) -> list[str]:
    """Return the data sets of a plan whose stores lie in the folder of a data set's."""
    folder = store_folder(plan, dataset, features)
    found = [name for name in plan.datasets() if store_folder(plan, name, features) == folder]
    return found or [folder]


def sources(plan: RunPlan, features: str) -> set[str]:
    """Return the features of a run, with those whose boxes or cells they are made from."""
    found: set[str] = set()
    todo = list(plan.feature_names(features))
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            settings = plan.get("features", name)
            todo += [each for each in (settings.boxes_from(), settings.cells_from()) if each]
    return found
