"""The figure of the clusters of several trained models on the same test images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from recap.core.errors import ConfigError
from recap.data.corpus.corpus import Corpus
from recap.evaluation.attention_figure import drawn_images
from recap.evaluation.captioned import check_labels
from recap.papers.acf.captioned_clusters import caption_with_clusters
from recap.papers.acf.drawing import write_clusters


def write_clusters_figure(
    *,
    corpus: Path,
    vocabulary: Path,
    features: Sequence[Path],
    image_roots: Sequence[Path],
    runs: Sequence[Path],
    labels: Sequence[str],
    image_ids: Sequence[int] | None,
    count: int,
    beam: int,
    layers: Sequence[int] | None,
    threshold: float,
    heading: str,
    untrained: bool,
    out: Path,
) -> None:
    """Caption images with each run and draw the clusters of its layers.

    Args:
        corpus, vocabulary: files of the data set.
        features: the feature stores that training saw.
        image_roots: folders or zips with the images.
        runs, labels: run folders and their names in the figure, one label per run.
        image_ids: images to show; None: `count` test images, the same on every call.
        count: images that are drawn where none are named.
        beam: of the search.
        layers: numbers of the layers to draw, counted from 1; None: all.
        threshold: C~ from which neighbors are one cluster.
        heading: text above the figure.
        untrained: draw each model's clusters before training, too.
        out: the PNG; the trees go beside it, as JSON.

    Raises:
        ConfigError: not one label per run, or the threshold is not between 0 and 1.
        RecapError: a file does not fit.
    """
    check_labels(runs, labels)
    if not 0 < threshold <= 1:
        raise ConfigError(f"a threshold of {threshold:g} clusters everything or nothing; give one above 0, at most 1")
    table = Corpus.read(corpus)
    images = image_ids or drawn_images(sorted(table.captions("test")), count)
    each = [
        caption_with_clusters(
            run=run,
            label=label,
            features=features,
            vocabulary=vocabulary,
            image_ids=images,
            beam=beam,
            threshold=threshold,
            untrained=untrained,
        )
        for run, label in zip(runs, labels, strict=True)
    ]
    maps = {image: [drawn for model in each for drawn in model[image]] for image in images}
    write_clusters(heading=heading, maps=maps, layers=layers, files=table.files(), image_roots=image_roots, out=out)
