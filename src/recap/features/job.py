"""What every extractor is given, and how it is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from recap.core.errors import DataError
from recap.data.subsets.used import read_used
from recap.features.write import Part

Item = TypeVar("Item")


@dataclass(frozen=True)
class ExtractionJob:
    """What an extractor works on, besides its settings."""

    corpus: Path | None  #: corpus.parquet; None, for imported features alone: all images that there are
    images: Sequence[Path]  #: folders or zips with the pictures
    inputs: Path  #: folder that the outside files of the settings are relative to
    shards: Path  #: folder for unfinished work
    out: Path  #: the store
    device: str = "auto"  #: auto, cpu or cuda
    threads: int = 2  #: how many pictures or batches are prepared at a time
    trained: Path | None = None  #: weights that the step `pretrain` or `tune` made, for settings that ask for it
    boxes: Path | None = None  #: a store whose main stream has boxes, for settings that name one
    cells: Path | None = None  #: a store with a grid, for settings that pool one
    #: files that the data set's reader wrote beside the corpus, for settings that name some
    products: Sequence[Path] = ()
    used: Path | None = None  #: JSON with the ids of the images to extract; None: all images of the corpus
    kept: Path | None = None  #: another name of the finished store, from which it grows when ``out`` is deleted
    part: Part | None = None  #: extract only one of several parts of the store

    def target(self) -> dict[str, Any]:
        """Return where the store is made, as arguments of :func:`recap.features.write.build_store`."""
        return {"out": self.out, "shards": self.shards, "kept": self.kept, "part": self.part}

    def wanted(self, images: Mapping[int, Item], where: Path) -> dict[int, Item]:
        """Return those of the images in ``where`` that are to be extracted.

        Raises:
            DataError: an image that is used is not there.
        """
        if self.used is None:
            return dict(images)
        ids = read_used(self.used)
        if missing := [image_id for image_id in ids if image_id not in images]:
            raise DataError(
                f"{self.used}: image id {missing[0]} is not in {where}; delete the list and rerun its command"
            )
        return {image_id: images[image_id] for image_id in ids}


class Extractor(Protocol):
    """Writes a store; the config class of a kind of features names it (``extractor``)."""

    def __call__(self, spec: Any, job: ExtractionJob) -> object:
        """Write the features of all images of a job into its store; an interrupted run is taken up again.

        Raises:
            RecapError: weights, files or pictures are missing or broken, no GPU where one is asked for.
        """
