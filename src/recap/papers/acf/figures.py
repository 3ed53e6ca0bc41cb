"""ACF's figures of several trained models: their clusters (Figure 5) and their alignment (section 4.1)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from recap.core.files.json_files import write_json
from recap.core.log import log
from recap.data.corpus.corpus import Corpus
from recap.evaluation.figure import DrawnModels, shown_images
from recap.papers.acf.alignment import run_alignment
from recap.papers.acf.captioned_clusters import caption_with_clusters
from recap.papers.acf.drawing import write_clusters
from recap.papers.acf.figure_settings import AlignmentFigure, ClustersFigure


def draw_clusters(figure: ClustersFigure, models: DrawnModels, files: Mapping[str, Path]) -> None:
    """Caption images with each model and draw the clusters of its layers; the trees are written as JSON.

    Raises:
        RecapError: a file does not fit, or the vectors are no grid.
    """
    corpus = Corpus.read(models.corpus)
    images = shown_images(figure, corpus)
    each = [
        caption_with_clusters(
            run=run,
            label=label,
            features=models.features,
            vocabulary=models.vocabulary,
            image_ids=images,
            beam=figure.beam,
            threshold=figure.threshold,
            untrained=figure.untrained,
        )
        for label, run in models.runs.items()
    ]
    write_clusters(
        heading=models.heading,
        maps={image: [drawn for model in each for drawn in model[image]] for image in images},
        layers=figure.layers,
        files=corpus.files(),
        image_roots=models.image_roots,
        out=files["clusters.png"],
    )


def score_alignment(figure: AlignmentFigure, models: DrawnModels, files: Mapping[str, Path]) -> None:
    """Caption a split with each model and write the scores of all as JSON.

    Raises:
        RecapError: a file does not fit.
    """
    ids = sorted(Corpus.read(models.corpus).captions(figure.split))
    scores = {}
    for label, run in models.runs.items():
        scores[label] = run_alignment(
            run=run,
            label=label,
            features=models.features,
            vocabulary=models.vocabulary,
            image_ids=ids,
            beam=figure.beam,
        )
        log.info(f"{label}: {scores[label]['mutual_argmax']:.4f} of the possible pairs over {len(ids)} images")
    write_json(files["alignment.json"], {"split": figure.split, "beam": figure.beam, "models": scores})
