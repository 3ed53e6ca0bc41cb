"""Tunes a backbone's weights to name the words of training captions, before its features are used.

For pictures of which the weights have not seen the like, such as X-rays for ImageNet's. The loss is the binary
cross-entropy of the words that captions of many images have, but not of most (`word_head`). Norms keep their
statistics; the weights of the epoch with the lowest loss on validation images are kept. The captions of the whole
training split are read, so that such features are not for runs on a subset of it.
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
from torch import Tensor

from recap.core.device import mixed, precision_here, select_device
from recap.core.errors import ConfigError, DataError, FeatureError
from recap.core.files import atomic_path
from recap.core.hashing import derived_seed
from recap.core.log import log, progress
from recap.data.corpus.corpus import Corpus
from recap.data.files.images import ImageSource
from recap.features.grid import STANDARDISED_OVER, Backbone, initial_weights
from recap.features.maps import ChannelScale
from recap.features.pictures import batches, decode, in_order
from recap.features.word_head import WordHead, word_loss
from recap.settings.features import GridFeatures, WordTuning

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
    """Return the words to name, the most frequent first."""
    counts = Counter(chain.from_iterable(said.values()))
    most, least = settings.most_images * len(said), settings.least_images
    words = [
        word for word, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])) if least <= count <= most
    ]
    if not words:
        raise DataError(
            f"{dataset}: no word stands in the captions of {least} to {most:.0f} of the {len(said)} training "
            "images; change `least_images` or `most_images` of `word_tuning`"
            if said
            else f"{dataset}: has no training images, whose captions have the words to tune on"
        )
    return words[: settings.words]


def labels(said: Mapping[int, set[str]], words: Sequence[str]) -> dict[int, Tensor]:
    """Return for each image which of the words it has, bool [W]."""
    return {image: torch.tensor([word in own for word in words]) for image, own in said.items()}


@dataclass(frozen=True)
class _Images:
    """Images with the files of their views and the words that they have."""

    source: ImageSource
    views: Mapping[int, Sequence[str]]
    labels: Mapping[int, Tensor]

    def read(self, chosen: Sequence[Sequence[int]], backbone: Backbone, *, name: str) -> Iterator[_Batch]:
        """Yield batches of images, read ahead."""

        def pictures(images: Sequence[int]) -> _Batch:
            files = [self.views[image] for image in images]
            edge, resample = backbone.spec.image_size, backbone.resample
            _, decoded = decode(self.source, list(chain.from_iterable(files)), edge=edge, resample=resample)
            return decoded, list(map(len, files)), torch.stack([self.labels[image] for image in images])

        yield from progress(in_order(pictures, chosen, threads=1), name=name, unit="batches", total=len(chosen))


def _fit(backbone: Backbone, settings: WordTuning, training: _Images, validation: _Images) -> dict[str, Tensor]:
    """Tune the model with a head that scores the words of each cell; return the weights of the best epoch."""
    target, model = backbone.device, backbone.model
    images, size = sorted(training.labels), settings.images_per_batch
    held_out = list(batches([sorted(validation.labels)], size))
    share = torch.stack(list(training.labels.values())).double().mean(0)
    cells = backbone.spec.grid**2 * sum(len(training.views[image]) for image in images) / len(images)
    head = WordHead(_channel_scale(backbone, training, size), share=share, cells=cells)
    head.to(target)
    optimizer = torch.optim.AdamW([*model.parameters(), *head.parameters()], weight_decay=0.02)
    steps = settings.epochs * math.ceil(len(images) / size)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, settings.learning_rate, total_steps=max(2, steps))
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
        for batch in training.read(list(batches([order], size)), backbone, name=name):
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
def mean_loss(loss_of: Callable[[_Batch], Tensor], given: Iterable[_Batch]) -> float:
    """Return the mean loss of batches, which change nothing."""
    return fmean(loss_of(batch).item() for batch in given)


def _channel_scale(backbone: Backbone, training: _Images, size: int) -> ChannelScale:
    """Return the scale of the channels over some training images, as the weights are at first."""
    images = sorted(training.labels)
    sample = images[:: -(-len(images) // STANDARDISED_OVER)]
    with torch.no_grad():
        found = training.read(list(batches([sample], size)), backbone, name="scale")
        maps = [backbone.maps(pictures) for pictures, _, _ in found]
    return ChannelScale.of(torch.cat(maps).float().flatten(2).transpose(1, 2).cpu().numpy())
