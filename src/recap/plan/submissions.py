"""What COCO's caption server is sent: captions of two sets of pictures by each scored run of a table with `server`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from recap.core.errors import ConfigError
from recap.plan.run import Run, file_name, row_runs
from recap.settings.datasets import PicturesAlone
from recap.settings.features import GridFeatures

Get = Callable[[str, str], Any]

if TYPE_CHECKING:
    from recap.plan.run_plan import RunPlan

VAL, TEST = "val2014", "test2014"


def results_name(part: str, algorithm: str) -> str:
    """Return the name that COCO's server wants of a file of captions."""
    return f"captions_{part}_{algorithm}_results.json"


@dataclass(frozen=True)
class Submission:
    """The captions of one run, as the server takes them."""

    algorithm: str  #: its name there, and of its files
    run: Run  #: the scored run; the pictures of val2014 are those of its data set
    test: Run  #: the run with data set and features of the test pictures: names their stores

    def files(self) -> list[str]:
        """Return the names of its files: the zip that the server takes, and the two in it."""
        return [f"{self.algorithm}.zip", *(results_name(part, self.algorithm) for part in (VAL, TEST))]

    def shown(self, part: str) -> Run:
        """Return the run with the data set and features of a part of COCO."""
        return self.test if part == TEST else self.run


def check_test_pictures(get: Get, dataset: str, features: Sequence[str], who: str) -> None:
    """Refuse test pictures that have references, and features that cannot be made for them.

    Args:
        get: returns the config object of a section and a name.
        dataset: of the pictures.
        features: of theirs.
        who: row and table, for the sentence.
    """
    if not isinstance(get("datasets", dataset), PicturesAlone):
        raise ConfigError(f"{who}: server.test: data set {dataset!r} has references; name one of kind coco_pictures")
    for name in features:
        settings = get("features", name)
        standardises = isinstance(settings, GridFeatures) and settings.standardises()
        if standardises or settings.trained_on() or settings.products():
            raise ConfigError(
                f"{who}: server: features {name!r} are made from training pictures or captions, which data set "
                f"{dataset!r} has not; name others, or give the row's reason under server.not_sent"
            )


def submissions(plan: RunPlan, table_id: str) -> list[Submission]:
    """Return what the server is sent of a table: its rows, one submission for each scored run."""
    found = []
    for row in plan.tables[table_id].rows:
        if (table_id, row.id) not in plan.test_pictures:
            continue
        dataset, features = plan.test_pictures[table_id, row.id]
        runs = row_runs(row, plan.seeds[table_id])
        for run in runs:
            name = f"{file_name(table_id)}_{row.id.replace('.', '_')}"
            algorithm = name if len(runs) == 1 else f"{name}_seed{run.seed}"
            found.append(Submission(algorithm, run, replace(run, dataset=dataset, features=features)))
    return found
