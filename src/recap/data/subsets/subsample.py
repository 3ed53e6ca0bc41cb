"""Subsets of the training captions, nested over fractions and equal on every Python version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from recap.core import checksums
from recap.core.documents import read_json, write_json
from recap.core.errors import DamagedData, DataError, nearest
from recap.core.hashing import value_hash
from recap.data.corpus.corpus import Corpus
from recap.data.subsets.ranking import rank, subset_size
from recap.data.subsets.wanted import Draw, first_survivors

UNITS = ("pair", "image")


def draw_subset(*, corpus: Path, name: str, fraction: float, unit: str, seed: int, out: Path) -> dict[str, Any]:
    """Draw training captions and write their ids; smaller fractions of one (dataset, unit, seed) are nested in larger.

    Args:
        corpus: the corpus file.
        name: name of the subset, for messages.
        fraction: share of the training pairs or images, above 0, at most 1 (everything).
        unit: 'pair' draws single captions, 'image' draws images with all their captions.
        seed: of the draw.
        out: JSON with dataset, fraction, unit, seed, caption_ids, image_ids (both rising) and hash.
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
