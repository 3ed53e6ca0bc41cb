"""Metrics beyond COCO's: scores from outside by image id, and truth about built-in scenes."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar, Literal

from recap.core.errors import MetricError
from recap.core.hashing import sha256_file
from recap.data.datasets import scene_captions as truth
from recap.metrics.base import Captions, Gap, Metric, Result

BOXES = "boxes.json"


class ExternalScores(Metric):
    """Reads ``<file>.<split>.parquet`` or ``.csv`` in the folder of a run's scores.

    The file has the column ``image_id`` and one column per name of the metric; several lines of an
    image, one per rater, are averaged. The corpus score is the mean over the images. The signature
    carries the hash of the file.
    """

    file: ClassVar[str]  # beginning of its name

    def __init__(self) -> None:
        self._sha256 = ""

    def version(self) -> dict[str, str]:
        """Return the beginning of the sha256 of the file that was read."""
        return {self.file: self._sha256[:8]} if self._sha256 else {}

    def score(self, captions: Captions) -> Result:
        """Return the scores of the file; where there is none, that is a `Gap`."""
        name = f"{self.file}.{captions.split}"
        paths = [(captions.folder or Path()) / f"{name}.{end}" for end in ("parquet", "csv")]
        path = next(filter(Path.is_file, paths), None)
        if captions.folder is None or path is None:
            raise Gap(f"there is no {name}.csv or .parquet beside the captions")
        per_image = _read(path, self.names, captions.ids)
        self._sha256 = sha256_file(path)
        return Result(
            {name: fmean(values.values()) for name, values in per_image.items()}, per_image
        )


class Rating(ExternalScores):
    """Mean rating by people: ``ratings.<split>.csv`` with columns image_id and Rating."""

    names: ClassVar[tuple[str, ...]] = ("Rating",)
    scale: ClassVar[Literal[1, 100]] = 1
    digits: ClassVar[int] = 2
    file: ClassVar[str] = "ratings"


def _read(path: Path, names: Sequence[str], ids: Sequence[int]) -> dict[str, dict[int, float]]:
    """Return the mean of each image's values, for each of some columns of a table."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    wanted = ["image_id", *names]
    try:
        table = pq.read_table(path) if path.suffix == ".parquet" else pyarrow.csv.read_csv(path)
        content = table.to_pydict()  # here names that are no UTF-8 are met
        columns: dict[str, list[Any]] = {name: content[name] for name in wanted}
    except (pa.ArrowException, OSError, LookupError, ValueError) as error:
        raise MetricError(
            f"{path}: no table with the columns {', '.join(wanted)} can be read "
            f"({' '.join(str(error).split())}); correct it"
        ) from error
    means = {}
    for name in names:
        values: dict[int, list[float]] = defaultdict(list)
        for image_id, value in zip(columns["image_id"], columns[name], strict=True):
            numbers = isinstance(image_id, int) and isinstance(value, int | float)
            if not numbers or not math.isfinite(value):
                raise MetricError(
                    f"{path}: image {image_id!r} has the {name} {value!r}; both must be finite "
                    "numbers"
                )
            values[image_id].append(float(value))
        if missing := [image_id for image_id in ids if image_id not in values]:
            raise MetricError(
                f"{path}: has no {name} of image {missing[0]} ({len(missing)} such images of "
                f"{len(ids)})"
            )
        means[name] = {image_id: fmean(values[image_id]) for image_id in ids}
    return means


class SceneTruth(Metric):
    """Share of captions that a comparison with what was drawn calls true.

    Only the scenes have the file.
    """

    products: ClassVar[tuple[str, ...]] = (BOXES,)
    comparison: ClassVar[str]  # its name in signatures
    is_true: ClassVar[staticmethod[[str, truth.Statement], bool]]  # of a caption and its scene

    def version(self) -> dict[str, str]:
        """Return the version of the comparison."""
        return {self.comparison: "1"}

    def score(self, captions: Captions) -> Result:
        """Return 1 for each caption that is true of its image and 0 for each other.

        The corpus score is their mean.
        """
        scenes = truth.read_truth(captions.product(BOXES))
        values = {
            image: float(self.is_true(text, scenes[image]))
            for image, text in captions.hypotheses.items()
        }
        return Result({self.names[0]: fmean(values.values())}, {self.names[0]: values})


class TrueCaptions(SceneTruth):
    """Share of captions right in number, size, color, texture, shape, place and background."""

    names: ClassVar[tuple[str, ...]] = ("True captions",)
    comparison: ClassVar[str] = "scenes"
    is_true = staticmethod(truth.is_true)


class TrueRelations(SceneTruth):
    """Share of captions whose relation is that of the scene.

    Where there is none, of those that say none.
    """

    names: ClassVar[tuple[str, ...]] = ("True relations",)
    comparison: ClassVar[str] = "relations"
    is_true = staticmethod(truth.relation_is_true)
