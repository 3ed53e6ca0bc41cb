"""Low-data subsets of a corpus's training captions: drawn by seed, nested in each other, and their unpaired texts;
and which rows of a list of web pictures such draws need."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from recap.core import checksums
from recap.core.documents import read_json, write_json
from recap.core.errors import DamagedData, DataError, nearest
from recap.core.files import write_text
from recap.core.hashing import value_hash
from recap.core.log import log
from recap.data.corpus.corpus import Corpus
from recap.data.corpus.corpus_file import DrawnFrom

UNITS = ("pair", "image")
VALIDATION = "validation"  # the unit of the draw of a validation split


def rank(ids: Iterable[int], *, dataset: str, unit: str, seed: int) -> list[int]:
    """Return ids in the order in which they enter growing subsets: by the sha256 of who they are."""
    numbers = np.unique(np.fromiter(ids, np.int64))
    ranked: list[int] = numbers[_order(numbers, f"{dataset}/{unit}/{seed}/")].tolist()
    return ranked


def _order(numbers: np.ndarray, prefix: str) -> np.ndarray:
    """Return the order of rising numbers by sha256 of prefix and number, in 40 bytes a number."""
    start = hashlib.sha256(prefix.encode())
    keys = np.empty((len(numbers), 4), ">u8")
    for row, number in enumerate(numbers.tolist()):
        digest = start.copy()
        digest.update(str(number).encode())
        keys[row] = np.frombuffer(digest.digest(), ">u8")
    # lexsort takes the most important key last; it is stable, so equal hashes would stay in the order of numbers.
    return np.lexsort(keys.T[::-1])


def subset_size(total: int, fraction: float) -> int:
    """Return how many of ``total`` a fraction is, halves rounded up, exactly as the fraction is written."""
    return int(Fraction(str(fraction)) * total + Fraction(1, 2))


def draw_subset(*, corpus: Path, name: str, fraction: float, unit: str, seed: int, out: Path) -> dict[str, Any]:
    """Draw training captions and write their ids; smaller fractions of one (dataset, unit, seed) are nested in larger.

    The unit 'pair' draws single captions, 'image' images with all their captions; a fraction of 1 is everything. The
    JSON has dataset, fraction, unit, seed, caption_ids, image_ids (both rising) and hash.
    """
    if unit not in UNITS:
        raise DataError(f"subset {name!r}: no such unit as {unit!r}; {nearest(unit, UNITS)}")
    if not 0 < fraction <= 1:
        raise DataError(f"subset {name!r}: fraction must be above 0 and at most 1, got {fraction}")
    source = Corpus.read(corpus)
    rows = source.rows("train")
    ids = source.caption_id[rows] if unit == "pair" else source.image_id[rows]
    units = np.unique(ids)
    chosen = _chosen(units, source, fraction=fraction, unit=unit, seed=seed)
    if not chosen:
        raise DataError(
            f"subset {name!r}: a fraction of {fraction} of {len(units)} training {unit}s leaves none; raise it"
        )
    kept = rows[np.isin(ids, chosen)]
    values: dict[str, Any] = {"dataset": source.dataset, "fraction": fraction, "unit": unit, "seed": seed}
    values["caption_ids"] = source.caption_id[kept].tolist()
    values["image_ids"] = np.unique(source.image_id[kept]).tolist()
    values["hash"] = value_hash(values)
    write_json(out, values)
    checksums.record(out)
    return values


def _chosen(units: np.ndarray, source: Corpus, *, fraction: float, unit: str, seed: int) -> list[int]:
    """Return the ids that are drawn; where only some pictures were asked for, the first of them that are there."""
    if source.drawn_from is None or fraction == 1:
        return rank(units, dataset=source.dataset, unit=unit, seed=seed)[: subset_size(len(units), fraction)]
    return first_survivors(units.tolist(), source.drawn_from, Draw(unit, fraction, seed), dataset=source.dataset)


def read_subset(path: str | Path) -> dict[str, Any]:
    """Read a subset file and verify its hash."""
    checksums.check(Path(path))
    values = read_json(path)
    rest = {key: value for key, value in values.items() if key != "hash"} if isinstance(values, dict) else {}
    if not rest or values.get("hash") != value_hash(rest):
        raise DamagedData(f"{path}: the ids do not match their hash; delete it and repeat the command that makes it")
    return values


def write_unpaired(*, corpus: Path, subset: Path, out: Path) -> dict[str, Any]:
    """Write the training pictures and captions outside a subset of whole images.

    Captions come in the order of a hash of their ids, so that their places say nothing of their pictures. The JSON has
    dataset, subset (its hash), image_ids, caption_ids and hash.
    """
    source, drawn = Corpus.read(corpus), read_subset(subset)
    if drawn["dataset"] != source.dataset or drawn["unit"] != "image":
        raise DataError(f"{subset}: must be a subset of {source.dataset!r} drawn by image; draw it again")
    # Raises for ids that the corpus does not hold.
    source.image_ids_of(drawn["caption_ids"])
    images = sorted(set(source.image_ids("train")) - set(drawn["image_ids"]))
    captions = sorted(set(source.caption_ids("train")) - set(drawn["caption_ids"]))
    if not images:
        raise DataError(f"{subset}: holds all training images, nothing is left unpaired; draw a smaller fraction")
    shuffled = rank(captions, dataset=source.dataset, unit="unpaired", seed=drawn["seed"])
    values: dict[str, Any] = {"dataset": source.dataset, "subset": drawn["hash"], "image_ids": images}
    values["caption_ids"] = shuffled
    values["hash"] = value_hash(values)
    write_json(out, values)
    checksums.record(out)
    log.info(
        f"{source.dataset}: {len(drawn['image_ids']):,} images with {len(drawn['caption_ids']):,} captions paired; "
        f"{len(images):,} images and {len(captions):,} captions unpaired"
    )
    return values


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
    """Write the numbers of all rows of a list that draws of data sets ask for, from 0, one a line, ascending."""
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
    """Return the rows of a draw (None: of the validation split): the first of its order that have a picture."""
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
