"""Makes a figure that a table lists, of whatever kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from recap.core.errors import ConfigError
from recap.core.hashing import generator
from recap.core.plugins import resolve
from recap.data.corpus import Corpus
from recap.settings.figures import ModelFigure, ShownImages


@dataclass(frozen=True)
class DrawnModels:
    """The trained models that a figure shows, with the files of their data set.

    Attributes:
        corpus, vocabulary: files of the data set.
    """

    runs: Mapping[str, Path]  #: label -> run folder; none where the figure shows no models
    corpus: Path
    vocabulary: Path
    features: Sequence[Path]  #: the feature stores that training saw; none where the figure shows no models
    image_roots: Sequence[Path]  #: folders or zips with the photos
    heading: str  #: text above the figure: the table and the scale of the runs
    texts: Sequence[Path] = ()  #: the outside files that the figure names


def write_figure(figure: ModelFigure, models: DrawnModels, out: Path) -> None:
    """Make the files of a figure.

    `out` is the begin of their paths: with `figures/mine`, `attention.png` becomes `figures/mine_attention.png`.
    """
    runs = len(models.runs)
    if figure.most_rows is not None and runs > figure.most_rows:
        raise ConfigError(f"{runs} runs, but figures of kind {figure.kind!r} show {figure.most_rows}; name fewer")
    if figure.needs_images and not models.image_roots:
        raise ConfigError(f"a figure of kind {figure.kind!r} shows photos; name their folders or zips with --images")
    if figure.needs_models and not (models.runs and models.features):
        raise ConfigError(
            f"a figure of kind {figure.kind!r} shows trained models; name --runs, --labels and --features"
        )
    if len(models.texts) != len(figure.texts()):
        raise ConfigError(f"a figure of kind {figure.kind!r} reads {len(figure.texts())} texts; name them with --texts")
    draw = resolve(figure.implementation)
    draw(figure, models, {ending: out.with_name(f"{out.name}_{ending}") for ending in figure.files})


def shown_images(figure: ShownImages, corpus: Corpus) -> list[int]:
    """Return the images that a figure names, or some of the test split, the same ones on every call."""
    if figure.image_ids:
        return figure.image_ids
    ids = sorted(corpus.captions("test"))
    drawn = generator(0, "attention").choice(len(ids), size=min(figure.count, len(ids)), replace=False).tolist()
    return [ids[index] for index in drawn]
