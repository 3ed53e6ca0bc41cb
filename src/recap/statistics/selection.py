"""Chooses one of several rows of a table by the scores of their validations, and keeps a record of why.

The score of a row is the mean over the seeds of the best CIDEr-D that its training's validations gave: the number by
which the weights were chosen, too. Test scores are not read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from recap.core.checksums import check, record
from recap.core.documents import read_json, write_json
from recap.core.errors import DamagedFile, MetricError
from recap.core.log import log
from recap.settings.base import Strict
from recap.settings.specs import SelectedRows
from recap.settings.tables import Selection
from recap.statistics.scores import read_number

RULE = "the highest mean over the seeds of the best validation CIDEr-D of each training; of equal ones the first"


class Candidate(Strict):
    """A row that may be chosen: its scores by seed, fractions of 1, and their mean."""

    row: str
    label: str
    validation_cider_d: dict[int, float]
    mean: float


class Choice(Strict):
    """What was chosen for one line of a table, and among what."""

    id: str
    label: str
    chosen: str
    rule: str
    candidates: list[Candidate]

    @property
    def shown(self) -> str:
        """The label of the line, which says what was chosen."""
        return f"{self.label}: {next(each.label for each in self.candidates if each.row == self.chosen)}"


def choose(selection: Selection, labels: Mapping[str, str], scores: Mapping[str, Mapping[int, float]]) -> Choice:
    """Return the choice among rows: id -> seed -> best validation CIDEr-D.

    Raises:
        MetricError: a row lacks a seed that another has.
    """
    seeds = sorted({seed for name in selection.over for seed in scores[name]})
    for name in selection.over:
        missing = [seed for seed in seeds if seed not in scores[name]]
        if missing or not seeds:
            lacks = f"seed {missing[0]}" if missing else "every seed"
            raise MetricError(f"selection {selection.id!r}: row {name!r} has no validation score of {lacks}; train it")
    found = [
        Candidate(
            row=name, label=labels[name], validation_cider_d=dict(scores[name]), mean=fmean(scores[name].values())
        )
        for name in selection.over
    ]
    best = max(found, key=lambda each: each.mean)  # the first of equal ones
    return Choice(id=selection.id, label=selection.label, chosen=best.row, rule=RULE, candidates=found)


def write_selections(spec: SelectedRows, *, runs: Path, out: Path) -> list[Choice]:
    """Choose for each line of a table, and write the record.

    Args:
        spec: the lines, and path of the training below ``runs`` by row and seed.
        runs: the folder of all trainings.
        out: the JSON.

    Raises:
        RecapError: the record of a training is missing or damaged.
    """
    scores = {
        name: {seed: read_number(runs / path / "training.json", "best_val_cider_d") for seed, path in by_seed.items()}
        for name, by_seed in spec.trainings.items()
    }
    choices = [choose(selection, spec.labels, scores) for selection in spec.selections]
    write_json(out, [choice.model_dump(mode="json") for choice in choices])
    record(out)
    for choice in choices:
        means = ", ".join(f"{each.row} {100 * each.mean:.1f}" for each in choice.candidates)
        log.info(f"{choice.id}: {choice.chosen} of {means} (validation CIDEr-D)")
    return choices


def read_selections(path: Path, selections: Sequence[Selection]) -> list[Choice]:
    """Return the choices of a record.

    Raises:
        RecapError: the record is missing or damaged, or is of other choices.
    """
    check(path)
    choices: list[Choice] = read_json(path, list[Choice])
    asked = [(each.id, each.over) for each in selections]
    found = [(each.id, [candidate.row for candidate in each.candidates]) for each in choices]
    if asked != found or any(each.chosen not in rows for each, (_, rows) in zip(choices, found, strict=True)):
        raise DamagedFile(f"{path}: the choices are not those of the table; delete it and run `recap select` again")
    return choices
