"""Low-data subsets of a corpus's training captions, nested and drawn by seed.

The images and web pictures they need.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from recap.core import checksums
from recap.core.documents import read_json, write_json
from recap.core.errors import DamagedData, DataError
from recap.core.files import reading, write_text
from recap.core.hashing import value_hash
from recap.data.corpus import Corpus, WebSample
from recap.settings.datasets import Draw, WebDraws

VALIDATION = "validation"  # the unit of the draw of a validation split


def rank(ids: Iterable[int], *, dataset: str, unit: str, seed: int) -> list[int]:
    """Return ids in the order in which they enter growing subsets:
    by the sha256 of who they are."""

    def key(number: int) -> bytes:
        return hashlib.sha256(f"{dataset}/{unit}/{seed}/{number}".encode()).digest()

    return sorted(np.unique(np.fromiter(ids, np.int64)).tolist(), key=key)


def subset_size(total: int, fraction: float) -> int:
    """Return how many of ``total`` a fraction is, as it is written; halves are rounded up."""
    return int(Fraction(str(fraction)) * total + Fraction(1, 2))


def draw_subset(
    *, corpus: Path, name: str, fraction: float, unit: str, seed: int, out: Path
) -> dict[str, Any]:
    """Draw training captions and write their ids;
    smaller fractions of one (dataset, unit, seed) are nested in larger.

    The unit 'pair' draws single captions, 'image' images with all their captions; a fraction of 1
    is everything. The JSON has dataset, fraction, unit, seed, caption_ids, image_ids (both rising)
    and hash.
    """
    source = Corpus.read(corpus)
    rows = source.rows("train")
    ids = source.caption_id[rows] if unit == "pair" else source.image_id[rows]
    units = np.unique(ids)
    if source.drawn_from is None or fraction == 1:
        chosen = rank(units, dataset=source.dataset, unit=unit, seed=seed)[
            : subset_size(len(units), fraction)
        ]
    else:
        draw = Draw(unit=unit, fraction=fraction, seed=seed)
        chosen = rows_with_pictures(units.tolist(), source.drawn_from, draw, dataset=source.dataset)
    if not chosen:
        raise DataError(
            f"subset {name!r}: a fraction of {fraction} of {len(units)} training {unit}s leaves "
            "none; raise it"
        )
    rows = rows[np.isin(ids, chosen)]
    values: dict[str, Any] = {
        "dataset": source.dataset,
        "fraction": fraction,
        "unit": unit,
        "seed": seed,
        "caption_ids": source.caption_id[rows].tolist(),
        "image_ids": np.unique(source.image_id[rows]).tolist(),
    }
    values["hash"] = value_hash(values)
    write_json(out, values)
    checksums.record(out)
    return values


def read_subset(path: str | Path) -> dict[str, Any]:
    """Read a subset file and verify its hash."""
    checksums.check(Path(path))
    values: dict[str, Any] = read_json(path, dict[str, Any])
    known = values.pop("hash", None)
    if known != value_hash(values):
        raise DamagedData(
            f"{path}: the ids do not match their hash; delete it and repeat the command that makes "
            "it"
        )
    return {**values, "hash": known}


def write_wanted(datasets: Mapping[str, WebDraws], *, rows: int, out: Path) -> None:
    """Write the rows of a list that draws ask for: numbers from 0, one a line, ascending."""
    wanted = np.zeros(rows, bool)
    for name, web in datasets.items():
        lines = WebSample(rows, web.held_out, web.seed, web.survival)
        for draw in (None, *web.draws):
            wanted[rows_to_fetch(lines, draw, dataset=name)] = True
    _write_numbers(out, np.flatnonzero(wanted))


def _write_numbers(out: Path, numbers: np.ndarray) -> None:
    write_text(out, "".join(f"{number}\n" for number in numbers.tolist()))
    checksums.record(out)


# the rows of the validation split, which every draw leaves out, and those of the last draw
@lru_cache(maxsize=2)
def rows_to_fetch(lines: WebSample, draw: Draw | None, *, dataset: str) -> list[int]:
    """Return the rows that are asked for because of a draw,
    in its order; without one, those for the validation split.

    Rows that are asked for as validation rows are drawn by no training draw.
    """
    if draw is None:
        order = rank(range(lines.rows), dataset=dataset, unit=VALIDATION, seed=lines.seed)
    else:
        others = np.setdiff1d(np.arange(lines.rows), rows_to_fetch(lines, None, dataset=dataset))
        order = rank(others.tolist(), dataset=dataset, unit=draw.unit, seed=draw.seed)
        if draw.fraction == 1:
            return order
    count = _size(lines, draw)
    # Of so many rows, ``count`` survive but for bad luck:
    # three standard deviations more than the mean.
    return order[: math.ceil((count + 3 * math.sqrt(count)) / lines.survival)]


def rows_with_pictures(
    there: Collection[int], lines: WebSample, draw: Draw | None = None, *, dataset: str
) -> list[int]:
    """Return the rows of a draw (None: validation): the first of its order with a picture."""
    order = rows_to_fetch(lines, draw, dataset=dataset)
    present = frozenset(there)
    count = _size(lines, draw)
    chosen = [row for row in order if row in present][:count]
    if len(chosen) < count:
        raise DataError(
            f"{dataset}: {len(chosen)} of the {len(order)} rows that are asked for to draw "
            f"{draw or 'the validation split'} have a picture, {count} are needed; lower "
            "`survival` of the data set and run again, which fetches more"
        )
    return chosen


def _size(lines: WebSample, draw: Draw | None) -> int:
    return (
        lines.held_out if draw is None else subset_size(lines.rows - lines.held_out, draw.fraction)
    )


def write_used(
    *, corpora: Sequence[Path], subsets: Sequence[Path], out: Path, parts: Sequence[str] = ()
) -> None:
    """Write the ids of all images that runs on these subsets read, one a line, ascending.

    All corpora have the same pictures. Of ``parts``, folders such as val2014, all pictures are
    captioned.
    """
    sources = {corpus.dataset: corpus for corpus in map(Corpus.read, corpora)}
    images = [source.image_id[source.split != "train"] for source in sources.values()]
    for path in subsets:
        drawn = read_subset(path)
        own = sources[drawn["dataset"]].image_ids_of(drawn["caption_ids"])
        images.append(np.array(own, np.int64))
    if parts:
        folders = tuple(f"{part}/" for part in parts)
        files = next(iter(sources.values())).files()
        captioned = [image for image, file in files.items() if file.startswith(folders)]
        images.append(np.array(captioned, np.int64))
    _write_numbers(out, np.unique(np.concatenate(images)))


def read_used(path: Path) -> list[int]:
    """Return the ids of a list of images."""
    checksums.check(path)
    with reading(path, DataError, damaged="delete it and repeat the command that makes it"):
        return [int(line) for line in path.read_text(encoding="ascii").splitlines()]
