"""Scores that are brought from outside, by image id: ratings of people, or the output of another program."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar, Literal

from recap.core.errors import MetricError
from recap.core.hashing import sha256_file
from recap.metrics.base import Captions, Gap, Metric, Result


class ExternalScores(Metric):
    """Reads ``<file>.<split>.parquet`` or ``.csv`` in the folder of a run's scores.

    The file has the column ``image_id`` and one column per name of the metric; several lines of an image, one per
    rater, are averaged. The corpus score is the mean over the images. The signature carries the hash of the file.

    Attributes:
        file: beginning of the file's name.
    """

    file: ClassVar[str]

    def __init__(self) -> None:
        self._sha256 = ""

    def version(self) -> dict[str, str]:
        """Return the beginning of the sha256 of the file that was read."""
        return {self.file: self._sha256[:8]} if self._sha256 else {}

    def score(self, captions: Captions) -> Result:
        """Return the scores of the file.

        Raises:
            Gap: there is no such file.
            MetricError: the file is damaged, or lacks a column, an image or a value.
        """
        path = self._find(captions)
        columns = _read(path)
        missing = [name for name in ("image_id", *self.names) if name not in columns]
        if missing:
            raise MetricError(f"{path}: has no column {missing[0]!r}; its columns are {', '.join(columns)}")
        per_image = {name: _means(path, name, columns, captions.ids) for name in self.names}
        self._sha256 = sha256_file(path)
        return Result({name: fmean(values.values()) for name, values in per_image.items()}, per_image)

    def _find(self, captions: Captions) -> Path:
        if captions.folder is not None:
            for suffix in ("parquet", "csv"):
                path = captions.folder / f"{self.file}.{captions.split}.{suffix}"
                if path.is_file():
                    return path
        raise Gap(f"there is no {self.file}.{captions.split}.csv or .parquet beside the captions")


class Rating(ExternalScores):
    """Mean rating by people: ``ratings.<split>.csv`` with the columns image_id and Rating, on the study's scale."""

    names: ClassVar[tuple[str, ...]] = ("Rating",)
    scale: ClassVar[Literal[1, 100]] = 1
    digits: ClassVar[int] = 2
    file: ClassVar[str] = "ratings"


def _read(path: Path) -> dict[str, list[Any]]:
    """Return the columns of a table."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path) if path.suffix == ".parquet" else pyarrow.csv.read_csv(path)
        columns: dict[str, list[Any]] = table.to_pydict()  # here names that are no UTF-8 are met
    except (pa.ArrowException, OSError, ValueError) as error:
        raise MetricError(f"{path}: no table can be read ({' '.join(str(error).split())}); correct it") from error
    return columns


def _means(path: Path, name: str, columns: dict[str, list[Any]], ids: list[int]) -> dict[int, float]:
    """Return the mean of each image's values."""
    found: dict[int, list[float]] = defaultdict(list)
    for image_id, value in zip(columns["image_id"], columns[name], strict=True):
        if not isinstance(image_id, int) or not isinstance(value, int | float) or not abs(value) < float("inf"):
            raise MetricError(f"{path}: image_id {image_id!r} has the {name} {value!r}; both must be finite numbers")
        found[image_id].append(float(value))
    missing = [image_id for image_id in ids if image_id not in found]
    if missing:
        raise MetricError(f"{path}: has no {name} of image {missing[0]} ({len(missing)} such images of {len(ids)})")
    return {image_id: fmean(found[image_id]) for image_id in ids}
