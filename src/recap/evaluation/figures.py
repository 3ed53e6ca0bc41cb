"""Figures of trained models: what every kind is drawn from,
where models look, and whether they look at all."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from recap.core.checksums import record
from recap.core.documents import write_json
from recap.core.errors import ConfigError, FeatureError
from recap.core.hashing import generator
from recap.core.log import log, progress
from recap.data.corpus import Corpus, pictures_of
from recap.data.vocabulary import BOS, PAD
from recap.evaluation.decode import Decoder
from recap.models.base import Captioner
from recap.models.explained import attention_maps
from recap.models.images import Images, Stream
from recap.nn.fast import fixed_weights
from recap.runs.inputs import batch_tensor, split_captions
from recap.settings.figures import AttentionFigure, ModelFigure, OtherImagesFigure, ShownImages
from recap.settings.kinds import resolve
from recap.settings.recipes import DecodingSettings
from recap.statistics.comparison import compare_paired
from recap.tables.contact_sheet import AttentionMap, Box, grid_boxes, write_attention

MAX_LENGTH = 20  # tokens of a caption
BATCH = 50  # images decoded at a time


@dataclass(frozen=True)
class DrawnModels:
    """The trained models that a figure shows, with the files of their data set."""

    runs: Mapping[str, Path]  #: label -> run folder; none where the figure shows no models
    corpus: Path
    vocabulary: Path
    #: the feature stores that training saw; none where the figure shows no models
    features: Sequence[Path]
    image_roots: Sequence[Path]  #: folders or zips with the photos
    heading: str  #: text above the figure: the table and the scale of the runs
    texts: Sequence[Path] = ()  #: the outside files that the figure names


def write_figure(figure: ModelFigure, models: DrawnModels, out: Path) -> None:
    """Make the files of a figure: with `out` figures/mine,
    `attention.png` becomes `figures/mine_attention.png`."""
    lacking = _lacking(figure, models)
    if lacking is not None:
        raise ConfigError(f"a figure of kind {figure.kind!r} needs {lacking}")
    draw = resolve(figure.implementation)
    files = {ending: out.with_name(f"{out.name}_{ending}") for ending in figure.files}
    draw(figure, models, files)
    record(*files.values())


def _lacking(figure: ModelFigure, models: DrawnModels) -> str | None:
    """Return what a figure needs and is not given, or None."""
    runs = len(models.runs)
    texts = len(figure.texts())
    most = figure.most_rows
    if most is not None and runs > most:
        return f"at most {most} runs, and there are {runs}; name fewer"
    if figure.needs_images and not models.image_roots:
        return "photos; name their folders or zips with --images"
    if figure.needs_models and not (runs and models.features):
        return "trained models; name --runs, --labels and --features"
    if len(models.texts) != texts:
        return f"{texts} texts; name them with --texts"
    return None


def shown_images(figure: ShownImages, corpus: Corpus) -> list[int]:
    """Return the images that a figure names, or some of the test split, always the same."""
    if figure.image_ids:
        return figure.image_ids
    ids = corpus.image_ids("test")
    size = min(figure.count, len(ids))
    return generator(0, "attention").choice(ids, size=size, replace=False).tolist()


class CaptionedImages(Decoder):
    """One of a figure's models on the CPU, with its captions: image id -> bare token ids."""

    def __init__(
        self, models: DrawnModels, label: str, image_ids: Sequence[int], *, beam: int
    ) -> None:
        settings = DecodingSettings(beam=beam, max_length=MAX_LENGTH, batch_size=BATCH)
        super().__init__(
            [models.runs[label]], settings, vocabulary=models.vocabulary, features=models.features
        )
        self.captions = {
            image: ranked[0].tokens for image, ranked in self.candidates(image_ids, label).items()
        }

    def words(self, image: int) -> list[str]:
        """Return the words of an image's caption, one per token."""
        return [self.vocabulary.decode([token]) for token in self.captions[image]]


def draw_attention(figure: AttentionFigure, models: DrawnModels, files: Mapping[str, Path]) -> None:
    """Caption images with each model and draw the attention map of every token."""
    corpus = Corpus.read(models.corpus)
    maps: dict[int, list[AttentionMap]] = {image: [] for image in shown_images(figure, corpus)}
    for label in models.runs:
        own = CaptionedImages(models, label, list(maps), beam=figure.beam)
        for image, drawn in maps.items():
            images = own.sources.read([image])
            words = own.words(image)
            tokens = torch.tensor([[[BOS, *own.captions[image]]]])
            weights = attention_maps(own.model, tokens, own.model.encode(images))[0, 0]  # [T, N]
            boxes = vector_boxes(own.sources.read([image], with_boxes=True).main, f"image {image}")
            drawn.append(
                AttentionMap(
                    label, words, boxes, weights[: len(words), images.main.mask[0]].tolist()
                )
            )
    shading = (
        "Attention of the first seed; brightness relative to the cell with the largest weight per "
        "word, which is outlined in red."
    )
    write_attention(
        heading="  |  ".join(filter(None, [models.heading, shading])),
        maps=maps,
        files=corpus.files(),
        source=pictures_of(models.corpus, models.image_roots),
        out=files["attention.png"],
    )


def vector_boxes(stream: Stream, source: str) -> list[Box]:
    """Return where one image's vectors arein fractions: boxes, or cells of a square grid."""
    vectors = int(stream.mask[0].sum())
    side = math.isqrt(vectors)
    if stream.boxes is None and side * side == vectors:
        return grid_boxes(side)
    if stream.boxes is None or stream.sizes is None or not stream.sizes.all():
        raise FeatureError(
            f"{source}: without boxes and the picture's size only vectors of a square grid can be "
            "drawn"
        )
    scaled = (stream.boxes[0] / stream.sizes[0].repeat(2))[stream.mask[0]].clamp(0, 1)
    return [(left, top, right, bottom) for left, top, right, bottom in scaled.tolist()]


def compare_images(
    figure: OtherImagesFigure, models: DrawnModels, files: Mapping[str, Path]
) -> None:
    """Write the loss of references with their own images
    and with the features of others, and the paired t-test.

        loss = mean over an image's reference tokens of -log p(token | tokens before it, image)

    A model that has learned the language of captions alone loses nothing when images are exchanged.
    Each image is given the features of the next one of its split in the order of ids, the last one
    those of the first.
    """
    corpus = Corpus.read(models.corpus)
    split = figure.split
    losses = {}
    for label, run in models.runs.items():
        opened = Decoder(
            [run], DecodingSettings(), vocabulary=models.vocabulary, features=models.features
        )
        captions = split_captions(corpus, opened.vocabulary, split)
        ids = sorted(captions)
        own, other = [], []
        for first in progress(range(0, len(ids), BATCH), name=label, unit="batches"):
            batch = ids[first : first + BATCH]
            tokens = batch_tensor(captions, batch)
            strangers = [ids[(place + 1) % len(ids)] for place in range(first, first + len(batch))]
            own += caption_losses(opened.model, opened.sources.read(batch), tokens).tolist()
            other += caption_losses(opened.model, opened.sources.read(strangers), tokens).tolist()
        test = compare_paired(own, other)
        means = {"own": sum(own) / len(own), "other": sum(other) / len(other)}
        losses[label] = {**means, "difference": asdict(test)}
        p = "" if test.p is None else f", p {test.p:.2g}"
        log.info(
            f"{label}: loss {means['own']:.3f} with the images themselves, {means['other']:.3f} "
            f"with others, over {test.images} images{p}"
        )
    write_json(files["other_images.json"], {"split": split, "models": losses})


@torch.no_grad()
@fixed_weights()
def caption_losses(model: Captioner, images: Images, tokens: Tensor) -> Tensor:
    """Return the mean loss per token of each image's captions, [B];
    tokens: [B, C, T + 1] with <bos> and <eos>."""
    inputs, targets = tokens[..., :-1], tokens[..., 1:]
    log_p = model.log_probabilities(model.decode(inputs, model.encode(images)))
    losses = -log_p.gather(-1, targets[..., None])[..., 0].masked_fill(targets == PAD, 0)
    return losses.sum((1, 2)) / (targets != PAD).sum((1, 2))
