"""The figure of the attention maps of several trained models on the same test images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from recap.core.seeding import generator
from recap.data.corpus.corpus import Corpus
from recap.evaluation.attention import caption_with_attention
from recap.evaluation.captioned import check_labels
from recap.reporting.attention import write_attention


def write_attention_figure(
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
    heading: str,
    out: Path,
) -> None:
    """Caption images with each run and draw the attention map of every token.

    Args:
        corpus, vocabulary: files of the data set.
        features: the feature stores that training saw.
        image_roots: folders or zips with the images.
        runs, labels: run folders and their names in the figure, one label per run.
        image_ids: images to show; None: `count` test images, the same on every call.
        count: images that are drawn where none are named.
        beam: of the search.
        heading: text above the figure.
        out: the PNG.

    Raises:
        ConfigError: not one label per run.
        RecapError: a file does not fit, or a model does not expose its attention.
    """
    check_labels(runs, labels)
    table = Corpus.read(corpus)
    images = image_ids or drawn_images(sorted(table.captions("test")), count)
    each = [
        caption_with_attention(
            run=run,
            label=label,
            features=features,
            vocabulary=vocabulary,
            image_ids=images,
            beam=beam,
        )
        for run, label in zip(runs, labels, strict=True)
    ]
    maps = {image: [model[image] for model in each] for image in images}
    write_attention(heading=heading, maps=maps, files=table.files(), image_roots=image_roots, out=out)


def drawn_images(ids: Sequence[int], count: int) -> list[int]:
    """Return some of the images, the same ones on every call."""
    drawn = generator(0, "attention").choice(len(ids), size=min(count, len(ids)), replace=False).tolist()
    return [ids[index] for index in drawn]
