"""Tunes a backbone's weights to name the words of training captions, before its features are used.

Fang et al. 2015, "From Captions to Visual Concepts and Back", section 3: a word of an image's captions is seen in at
least one of its cells, over all views,

    p(word | image) = 1 - prod over cells (1 - sigmoid(w f + b)),

and the loss is the binary cross-entropy of the words that captions of many images have, but not of most. For pictures
of which the weights have not seen the like, such as X-rays for ImageNet's. What all such pictures have in common hides
what tells them apart, so that f are the channels standardised over training pictures. Norms keep their statistics. The
weights of the epoch with the lowest loss on validation images are kept. The captions of the whole training split are
read, so that such features are not for runs on a subset of it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import TypeAlias

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn.functional import softplus

from recap.core.config.features.grid import GridFeatures, WordTuning
from recap.core.device import select_device
from recap.core.errors import ConfigError, DataError, FeatureError
from recap.core.files.atomic import atomic_path
from recap.core.log import log
from recap.core.precision import mixed, precision_here
from recap.core.progress import progress
from recap.core.seeding import derived_seed
from recap.data.corpus.corpus import Corpus
from recap.data.files.images import ImageSource
from recap.features.grid import STANDARDISED_OVER, Backbone, initial_weights
from recap.features.maps import channel_scale
from recap.features.pictures import decode, in_order
from recap.layers.fast.uncompiled import uncompiled_optimizer

_Batch: TypeAlias = tuple[Tensor, list[int], Tensor]  # pictures of all views, number of views and words of each image


def tune_backbone(
    *, spec: GridFeatures, corpus: Path, images: Sequence[Path], inputs: Path, device: str, threads: int, out: Path
) -> None:
    """Tune the backbone on the captions of the training images and write its weights as safetensors.

    Args:
        spec: backbone, weights to begin with, grid, and `word_tuning`.
        corpus: corpus.parquet of the data set.
        images: folders or zips with the pictures.
        inputs: folder that the weights are relative to.
        device: auto, cpu or cuda.
        threads: CPU threads; pictures are decoded beside them.
        out: the weights.

    Raises:
        ConfigError: the settings have no `word_tuning`.
        DataError: a picture or a split is missing, or no word is as frequent as asked for.
        FeatureError: no epoch has a finite loss.
    """
    settings = spec.word_tuning
    if settings is None:
        raise ConfigError("the features have no `word_tuning`; without it their weights are used as they are")
    target = select_device(device)
    torch.set_num_threads(threads)
    table = Corpus.read(corpus)
    said = _said(table, "train")
    words = _words(said, settings, dataset=table.dataset)
    source, views = ImageSource(images), table.views()
    training = _Images(source, views, labels(said, words))
    validation = _Images(source, views, labels(_said(table, "val"), words))
    if not validation.labels:
        raise DataError(f"{table.dataset}: has no validation images, whose loss says which epoch is the best")
    torch.manual_seed(derived_seed(spec.seed, "word tuning", spec.backbone))
    backbone = Backbone(spec, weights=initial_weights(spec, inputs=inputs), device=target)
    log.info(f"words to tune on: {len(words)}, from {words[0]!r} to {words[-1]!r}, over {len(said)} training images")
    weights = _fit(backbone, settings, training, validation)
    with atomic_path(out) as temporary:
        save_file({name: value.cpu().contiguous() for name, value in weights.items()}, temporary)


def _said(table: Corpus, split: str) -> dict[int, set[str]]:
    """Return the words that the captions of each image of a split have."""
    ids = table.caption_ids(split)
    said: dict[int, set[str]] = {}
    for image, tokens in zip(table.image_ids_of(ids), table.token_lists(ids), strict=True):
        said.setdefault(image, set()).update(tokens)
    return said


def _words(said: Mapping[int, set[str]], settings: WordTuning, *, dataset: str) -> list[str]:
    """Return the words to name, the most frequent first.

    Raises:
        DataError: there is none.
    """
    counts = Counter(chain.from_iterable(said.values()))
    most, least = settings.most_images * len(said), settings.least_images
    words = [
        word for word, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])) if least <= count <= most
    ]
    if not words:
        raise DataError(
            f"{dataset}: no word stands in the captions of {least} to {most:.0f} of the {len(said)} training "
            "images; change `least_images` or `most_images` of `word_tuning`"
        )
    return words[: settings.words]


def labels(said: Mapping[int, set[str]], words: Sequence[str]) -> dict[int, Tensor]:
    """Return for each image which of the words it has, bool [W]."""
    return {image: torch.tensor([word in own for word in words]) for image, own in said.items()}


def word_loss(scores: Tensor, counts: Sequence[int], labels: Tensor) -> Tensor:
    """Return the mean binary cross-entropy of the words of images.

    Args:
        scores: of the cells of all views of all images, [V, W, cells].
        counts: number of views of each of B images, V in all.
        labels: [B, W], True where a caption of the image has the word.
    """
    absent = -softplus(scores).sum(-1)  # log p of no cell of a view, [V, W]
    absent = torch.stack([view.sum(0) for view in absent.split(list(counts))]).clamp(max=-1e-6)
    return -torch.where(labels, torch.log(-torch.expm1(absent)), absent).mean()


@dataclass(frozen=True)
class _Images:
    """Images with the files of their views and the words that they have."""

    source: ImageSource
    views: Mapping[int, Sequence[str]]
    labels: Mapping[int, Tensor]

    def read(self, batches: Sequence[Sequence[int]], backbone: Backbone, *, name: str) -> Iterator[_Batch]:
        """Yield batches of images, read ahead."""

        def pictures(images: Sequence[int]) -> _Batch:
            files = [self.views[image] for image in images]
            edge, resample = backbone.spec.image_size, backbone.resample
            _, decoded = decode(self.source, list(chain.from_iterable(files)), edge=edge, resample=resample)
            return decoded, list(map(len, files)), torch.stack([self.labels[image] for image in images])

        yield from progress(in_order(pictures, batches, threads=1), name=name, unit="batches", total=len(batches))


class _WordHead(nn.Module):
    """Scores words in each cell of a map whose channels are first standardised."""

    def __init__(self, mean: Tensor, factor: Tensor, *, share: Tensor, cells: float) -> None:
        """Begin with scores that give each word its share of the images.

        Args:
            mean, factor: of each channel, [C].
            share: of the images that have each word, [W].
            cells: of an image, over all its views.
        """
        super().__init__()
        self.mean: Tensor
        self.factor: Tensor
        self.register_buffer("mean", mean[:, None, None])
        self.register_buffer("factor", factor[:, None, None])
        self.words = nn.Conv2d(len(mean), len(share), 1)
        nn.init.zeros_(self.words.weight)
        self.words.bias = nn.Parameter(torch.log(torch.expm1(-torch.log1p(-share) / cells)).float())

    def forward(self, maps: Tensor) -> Tensor:
        """Return scores [V, W, cells] of maps [V, C, grid, grid]."""
        scores: Tensor = self.words((maps.float() - self.mean) * self.factor)
        return scores.flatten(2)


def _fit(backbone: Backbone, settings: WordTuning, training: _Images, validation: _Images) -> dict[str, Tensor]:
    """Tune the model with a head that scores the words of each cell; return the weights of the best epoch."""
    target, model = backbone.device, backbone.model
    images, held_out = sorted(training.labels), _cut(sorted(validation.labels), settings.images_per_batch)
    share = torch.stack(list(training.labels.values())).double().mean(0)
    cells = backbone.spec.grid**2 * sum(len(training.views[image]) for image in images) / len(images)
    head = _WordHead(*_channel_scale(backbone, training, settings.images_per_batch), share=share, cells=cells)
    head.to(target)
    optimizer = uncompiled_optimizer(torch.optim.AdamW)([*model.parameters(), *head.parameters()], weight_decay=0.02)
    batches = math.ceil(len(images) / settings.images_per_batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, settings.learning_rate, total_steps=max(2, settings.epochs * batches)
    )
    precision = precision_here(settings.precision, target)

    def loss_of(batch: _Batch) -> Tensor:
        pictures, counts, wanted = batch
        with mixed(precision, target):
            maps = backbone.maps(pictures)
        return word_loss(head(maps), counts, wanted.to(target))

    def validated(name: str) -> float:
        return mean_loss(loss_of, validation.read(held_out, backbone, name=name))

    model.eval()  # norms keep the statistics of the weights
    best, weights = math.inf, {}
    log.info(f"tuning: loss on validation {validated('validation'):.4f} by the words' shares alone")
    for epoch in range(1, settings.epochs + 1):
        name, losses = f"tuning, epoch {epoch}", []
        order = [images[place] for place in torch.randperm(len(images)).tolist()]
        for batch in training.read(_cut(order, settings.images_per_batch), backbone, name=name):
            loss = loss_of(batch)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
        found = validated(f"{name}, validation")
        log.info(f"{name}: loss {fmean(losses):.4f}, on validation {found:.4f}")
        if found < best:
            best, weights = found, {key: value.clone() for key, value in model.state_dict().items()}
    if not weights:
        raise FeatureError(
            f"the loss of the words is not finite; lower learning_rate, now {settings.learning_rate:.3g}"
        )
    return weights


@torch.no_grad()
def mean_loss(loss_of: Callable[[_Batch], Tensor], batches: Iterable[_Batch]) -> float:
    """Return the mean loss of batches, which change nothing."""
    return fmean(loss_of(batch).item() for batch in batches)


def _channel_scale(backbone: Backbone, training: _Images, size: int) -> tuple[Tensor, Tensor]:
    """Return mean and factor of each channel over some training images, as the weights are at first, each [C]."""
    images = sorted(training.labels)
    sample = images[:: -(-len(images) // STANDARDISED_OVER)]
    with torch.no_grad():
        maps = [backbone.maps(pictures) for pictures, _, _ in training.read(_cut(sample, size), backbone, name="scale")]
    mean, factor = channel_scale(torch.cat(maps).float().flatten(2).transpose(1, 2).cpu().numpy())
    return torch.from_numpy(mean), torch.from_numpy(factor)


def _cut(images: Sequence[int], size: int) -> list[Sequence[int]]:
    return [images[start : start + size] for start in range(0, len(images), size)]
