"""The figure of the attention maps of several trained models on the same test images."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from recap.data.corpus.corpus import Corpus
from recap.evaluation.attention import caption_with_attention
from recap.evaluation.figure import DrawnModels, shown_images
from recap.reporting.attention import write_attention
from recap.settings.model_figures import AttentionFigure

_SHADING = (
    "Attention of the first seed; brightness relative to the cell with the largest weight per word, which is outlined "
    "in red."
)


def draw_attention(figure: AttentionFigure, models: DrawnModels, files: Mapping[str, Path]) -> None:
    """Caption images with each model and draw the attention map of every token.

    Raises:
        RecapError: a file does not fit, or a model does not expose its attention.
    """
    corpus = Corpus.read(models.corpus)
    images = shown_images(figure, corpus)
    each = [
        caption_with_attention(
            run=run,
            label=label,
            features=models.features,
            vocabulary=models.vocabulary,
            image_ids=images,
            beam=figure.beam,
        )
        for label, run in models.runs.items()
    ]
    write_attention(
        heading="  |  ".join(filter(None, [models.heading, _SHADING])),
        maps={image: [model[image] for model in each] for image in images},
        files=corpus.files(),
        image_roots=models.image_roots,
        out=files["attention.png"],
    )
