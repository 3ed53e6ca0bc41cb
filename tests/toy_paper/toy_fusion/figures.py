"""The toy's figure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from recap.core.files import write_text
from recap.data.corpus import Corpus
from recap.evaluation.figures import CaptionedImages, DrawnModels
from toy_fusion.figure_settings import LengthsFigure


def write_lengths(figure: LengthsFigure, models: DrawnModels, files: Mapping[str, Path]) -> None:
    """Write the number of words of each caption as CSV."""
    ids = sorted(Corpus.read(models.corpus).captions("test"))
    lines = ["model,image,words"]
    for label in models.runs:
        found = CaptionedImages(models, label, ids, beam=1)
        lines += [f"{label},{image},{len(words)}" for image, words in found.captions.items()]
    write_text(files["lengths.csv"], "\n".join([*lines, ""]))
