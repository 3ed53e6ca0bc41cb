"""Reads the score files of one run, each verified against `SHA256SUMS`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from recap.core.errors import MetricError
from recap.core.files.atomic import read_json
from recap.core.files.checksums import check
from recap.core.signatures import parse_signature


def read_metrics(folder: Path) -> dict[str, Any]:
    """Return ``metrics.json`` of a run: "scores", "not_run", "signature", "images".

    Raises:
        RecapError: it is missing, or not the file that `SHA256SUMS` lists.
    """
    path = folder / "metrics.json"
    check(path)
    metrics = read_json(path)
    if not isinstance(metrics, dict) or not isinstance(metrics.get("scores"), dict):
        raise MetricError(f"{path}: not a score file; delete it and evaluate this run again")
    return metrics


def split_of(signature: str) -> str:
    """Return the split that a signature names, e.g. ``test``."""
    return parse_signature(signature).get("split", "").partition("@")[0]


def read_captions(folder: Path, split: str) -> dict[int, str]:
    """Return the captions of a run: image id -> caption.

    Raises:
        RecapError: as :func:`read_metrics`.
    """
    path = folder / f"captions.{split}.json"
    check(path)
    return {int(item["image_id"]): item["caption"] for item in read_json(path)}


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
        raise MetricError(f"{path}: no such file; evaluate this run again") from error
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        reason = " ".join(str(error).split())
        raise MetricError(f"{path}: not a score file ({reason}); delete it and evaluate this run again") from error
    return {name: table[name].to_numpy() for name in table.column_names}
