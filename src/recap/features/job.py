"""What every extractor is given, and how it is called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True)
class ExtractionJob:
    """What an extractor works on, besides its settings.

    Attributes:
        corpus: corpus.parquet; None, for imported features alone: all images that there are.
        images: folders or zips with the pictures.
        inputs: folder that the outside files of the settings are relative to.
        shards: folder for unfinished work.
        out: the store.
        device: auto, cpu or cuda.
        threads: how many pictures or batches are prepared at a time.
        trained: weights that `recap features pretrain` or `recap features tune` made, for settings that ask for it.
        boxes: a store whose main stream has boxes, for settings that name one.
        cells: a store with a grid, for settings that pool one.
        products: files that the data set's reader wrote beside the corpus, for settings that name some.
    """

    corpus: Path | None
    images: Sequence[Path]
    inputs: Path
    shards: Path
    out: Path
    device: str = "auto"
    threads: int = 2
    trained: Path | None = None
    boxes: Path | None = None
    cells: Path | None = None
    products: Sequence[Path] = ()


class Extractor(Protocol):
    """Writes a store; the config class of a kind of features names it (``extractor``)."""

    def __call__(self, spec: Any, job: ExtractionJob) -> object:
        """Write the features of all images of a job into its store; an interrupted run is taken up again.

        Raises:
            RecapError: weights, files or pictures are missing or broken, no GPU where one is asked for.
        """
