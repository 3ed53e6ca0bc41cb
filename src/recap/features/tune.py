"""Tunes a backbone's weights to name the words of training captions, before its features are used.

Fang et al. 2015, "From Captions to Visual Concepts and Back", section 3: a word of an image's captions is seen in at
least one of its cells, over all views,

    p(word | image) = 1 - prod over cells (1 - sigmoid(w f + b)),

and the loss is the binary cross-entropy of the words that captions of many images have, but not of most. For pictures
of which the weights have not seen the like, such as X-rays for ImageNet's. Norms keep their statistics. The captions of
the whole training split are read, so that such features are not for runs on a subset of it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn.functional import softplus

from recap.core.config.features.grid import GridFeatures, WordTuning
from recap.core.device import select_device
from recap.core.errors import ConfigError, DataError
from recap.core.files.atomic import atomic_path
from recap.core.log import log
from recap.core.precision import mixed, precision_here
from recap.core.progress import progress
from recap.core.seeding import derived_seed
from recap.data.corpus.corpus import Corpus
from recap.data.files.images import ImageSource
from recap.features.grid import Backbone, initial_weights
from recap.features.pictures import decode, in_order
from recap.layers.fast.uncompiled import uncompiled_optimizer


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
        DataError: a picture is missing, or no word is as frequent as asked for.
    """
    settings = spec.word_tuning
    if settings is None:
        raise ConfigError("the features have no `word_tuning`; without it their weights are used as they are")
    target = select_device(device)
    torch.set_num_threads(threads)
    table = Corpus.read(corpus)
    words, labels = _labels(table, settings)
    views = {image: files for image, files in table.views().items() if image in labels}
    torch.manual_seed(derived_seed(spec.seed, "word tuning", spec.backbone))
    backbone = Backbone(spec, weights=initial_weights(spec, inputs=inputs), device=target)
    log.info(f"words to tune on: {len(words)}, from {words[0]!r} to {words[-1]!r}, over {len(labels)} training images")
    _fit(backbone, settings, ImageSource(images), views, labels)
    with atomic_path(out) as temporary:
        save_file({name: value.cpu().contiguous() for name, value in backbone.model.state_dict().items()}, temporary)


def _labels(table: Corpus, settings: WordTuning) -> tuple[list[str], dict[int, Tensor]]:
    """Return the words to name, the most frequent first, and for each training image which of them it has, [W].

    Raises:
        DataError: there is none.
    """
    ids = table.caption_ids("train")
    said: dict[int, set[str]] = {}
    for image, tokens in zip(table.image_ids_of(ids), table.token_lists(ids), strict=True):
        said.setdefault(image, set()).update(tokens)
    counts = Counter(chain.from_iterable(said.values()))
    most, least = settings.most_images * len(said), settings.least_images
    words = [
        word for word, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])) if least <= count <= most
    ]
    words = words[: settings.words]
    if not words:
        raise DataError(
            f"{table.dataset}: no word stands in the captions of {least} to {most:.0f} of the {len(said)} training "
            "images; change `least_images` or `most_images` of `word_tuning`"
        )
    return words, {image: torch.tensor([word in own for word in words]) for image, own in said.items()}


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


def _fit(
    backbone: Backbone,
    settings: WordTuning,
    source: ImageSource,
    views: dict[int, list[str]],
    labels: dict[int, Tensor],
) -> None:
    """Tune the model with a head that scores the words of each cell."""
    spec, target = backbone.spec, backbone.device
    _, first = decode(source, next(iter(views.values()))[:1], edge=spec.image_size, resample=backbone.resample)
    with torch.no_grad():
        width = backbone.maps(first).shape[1]
    share = torch.stack(list(labels.values())).double().mean(0)
    head = nn.Conv2d(width, len(share), 1)
    cells = spec.grid**2 * sum(map(len, views.values())) / len(views)
    nn.init.normal_(head.weight, std=0.01)
    # Each word begins with its share of the images.
    head.bias = nn.Parameter(torch.log(torch.expm1(-torch.log1p(-share) / cells)).float())
    head.to(target)
    optimizer = uncompiled_optimizer(torch.optim.AdamW)(
        [*backbone.model.parameters(), *head.parameters()], weight_decay=0.02
    )
    images = sorted(views)
    batches = math.ceil(len(images) / settings.images_per_batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, settings.learning_rate, total_steps=max(2, settings.epochs * batches)
    )

    def read(chosen: list[int]) -> tuple[list[int], Tensor]:
        files = list(chain.from_iterable(views[image] for image in chosen))
        return chosen, decode(source, files, edge=spec.image_size, resample=backbone.resample)[1]

    def shuffled() -> Iterator[list[int]]:
        order = [images[place] for place in torch.randperm(len(images)).tolist()]
        for start in range(0, len(order), settings.images_per_batch):
            yield order[start : start + settings.images_per_batch]

    precision = precision_here(settings.precision, target)
    backbone.model.eval()  # norms keep the statistics of the weights
    for epoch in range(settings.epochs):
        total = 0.0
        reading = in_order(read, list(shuffled()), threads=1)
        for chosen, pictures in progress(reading, name=f"tuning, epoch {epoch + 1}", unit="batches", total=batches):
            with mixed(precision, target):
                scores = head(backbone.maps(pictures)).float().flatten(2)
            loss = word_loss(
                scores, [len(views[image]) for image in chosen], torch.stack([labels[i] for i in chosen]).to(target)
            )
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item()
        log.info(f"tuning, epoch {epoch + 1}: loss {total / batches:.4f}")
