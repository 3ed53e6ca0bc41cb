"""Reads the score files of one run, each verified against `SHA256SUMS`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import FiniteFloat

from recap.core.checksums import check
from recap.core.documents import read_json
from recap.core.errors import DamagedFile, MissingFile
from recap.settings.recipes import DecodingSettings, OutsideCaptions


@dataclass(frozen=True)
class _Captioned:
    image_id: int
    caption: str


@dataclass(frozen=True)
class Metrics:
    """``metrics.json`` of a run.

    Attributes:
        scores: name -> score of all images; None where it was not computed.
        signature: which references, tokenizer and scorers the scores came from.
        split: whose images were scored, e.g. ``test``.
        decoding: how the captions were searched, or the file that they are from.
        not_run: name -> why it has no score.
    """

    scores: dict[str, FiniteFloat | None]
    signature: str
    split: str
    decoding: DecodingSettings | OutsideCaptions
    not_run: dict[str, str] = field(default_factory=dict)


def read_metrics(folder: Path) -> Metrics:
    """Return ``metrics.json`` of a run.

    Raises:
        RecapError: it is missing, no such file, or not the one that `SHA256SUMS` lists.
    """
    path = folder / "metrics.json"
    check(path)
    metrics: Metrics = read_json(path, Metrics)
    return metrics


def read_number(path: Path, key: str) -> float:
    """Return a number from a JSON file of a training.

    Raises:
        RecapError: the file is missing or changed, or has no such number.
    """
    check(path)
    value = read_json(path, dict[str, Any]).get(key)
    if not isinstance(value, int | float):
        raise DamagedFile(f"{path}: has no number {key!r}; delete it and train this run again")
    return value


def read_captions(folder: Path, split: str) -> dict[int, str]:
    """Return the captions of a run: image id -> caption.

    Raises:
        RecapError: as :func:`read_metrics`.
    """
    path = folder / f"captions.{split}.json"
    check(path)
    return {item.image_id: item.caption for item in read_json(path, list[_Captioned])}


def read_image_scores(folder: Path, split: str) -> dict[str, np.ndarray]:
    """Return the scores per image of a run, sorted by image id: column -> ``[images]``.

    Raises:
        RecapError: as :func:`read_metrics`.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / f"scores.{split}.parquet"
    check(path)
    try:
        table = pq.read_table(path, page_checksum_verification=True).sort_by("image_id")
    except FileNotFoundError as error:
        raise MissingFile(f"{path}: no such file; evaluate this run again") from error
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        reason = " ".join(str(error).split())
        raise DamagedFile(f"{path}: not a score file ({reason}); delete it and evaluate this run again") from error
    return {name: table[name].to_numpy() for name in table.column_names}
