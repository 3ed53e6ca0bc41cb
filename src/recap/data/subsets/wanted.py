"""Rows of a list of web pictures that draws need, before any picture is fetched.

Addresses die, so a draw takes the first N of its order whose pictures are there: still each surviving row with the same
probability. More rows are asked for than that, because only a share of them is expected to survive.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from recap.core import checksums
from recap.core.errors import DataError
from recap.core.files import write_text
from recap.data.corpus.corpus_file import DrawnFrom
from recap.data.subsets.ranking import rank, subset_size

VALIDATION = "validation"  # the unit of the draw of a validation split


@dataclass(frozen=True)
class Draw:
    """A draw of training rows: ``fraction`` of those that are not held out."""

    unit: str
    fraction: float
    seed: int


@dataclass(frozen=True)
class WebDraws:
    """The draws from one list of a data set; ``held_out``, ``seed`` and ``survival`` are those of `DrawnFrom`."""

    held_out: int
    seed: int
    survival: float
    draws: list[Draw]


def write_wanted(datasets: Mapping[str, WebDraws], *, rows: int, out: Path) -> None:
    """Write the numbers of all rows to ask for, from 0, one a line, ascending.

    Args:
        datasets: name of a data set -> its draws.
        rows: of the list.
        out: the file.
    """
    wanted = np.zeros(rows, bool)
    for name, said in datasets.items():
        lines = DrawnFrom(rows, said.held_out, said.seed, said.survival)
        # The draws of one unit and seed are nested: the largest has all rows.
        largest = {(draw.unit, draw.seed): draw for draw in sorted(said.draws, key=lambda draw: draw.fraction)}
        for draw in (None, *largest.values()):
            wanted[asked(lines, draw, dataset=name)] = True
    write_text(out, "".join(f"{number}\n" for number in np.flatnonzero(wanted).tolist()))
    checksums.record(out)


def asked(lines: DrawnFrom, draw: Draw | None, *, dataset: str) -> list[int]:
    """Return the rows that are asked for because of a draw, in its order; without one, those for the validation split.

    Rows that are asked for as validation rows are drawn by no training draw.
    """
    validation = _validation(lines, dataset)
    if draw is None:
        return validation
    others = np.setdiff1d(np.arange(lines.rows), validation)
    order = rank(others.tolist(), dataset=dataset, unit=draw.unit, seed=draw.seed)
    return order if draw.fraction == 1 else order[: _asked(_size(lines, draw), lines.survival)]


@cache
def _validation(lines: DrawnFrom, dataset: str) -> list[int]:
    order = rank(range(lines.rows), dataset=dataset, unit=VALIDATION, seed=lines.seed)
    return order[: _asked(lines.held_out, lines.survival)]


def first_survivors(there: Collection[int], lines: DrawnFrom, draw: Draw | None = None, *, dataset: str) -> list[int]:
    """Return the rows of a draw: the first of its order that have a picture.

    Args:
        there: the rows that have one.
        lines: the list that is drawn from.
        draw: the draw; None: that of the validation split.
        dataset: name of the data set.
    """
    order, known = asked(lines, draw, dataset=dataset), frozenset(there)
    count = lines.held_out if draw is None else _size(lines, draw)
    chosen = [row for row in order if row in known][:count]
    if len(chosen) < count:
        what = "the validation split" if draw is None else f"{draw.fraction:g} of the rows with seed {draw.seed}"
        raise DataError(
            f"{dataset}: {len(chosen)} of the {len(order)} rows that are asked for to draw {what} have a picture, "
            f"{count} are needed; lower `survival` of the data set and run again, which fetches more"
        )
    return chosen


def _size(lines: DrawnFrom, draw: Draw) -> int:
    return subset_size(lines.rows - lines.held_out, draw.fraction)


def _asked(count: int, survival: float) -> int:
    """Return of how many rows ``count`` survive but for bad luck: three standard deviations more than the mean."""
    return math.ceil((count + 3 * math.sqrt(count)) / survival)
