"""Small trainings of a backbone before its features are used:
to name what boxes hold, or the words of captions.

`pretrain` is to the built-in scenes what a detector trained on Visual Genome's objects and
attributes is to photographs (Anderson et al. 2018, section 3.1): captions are not seen, only boxes
with names. Each cell of the map says what the box over it holds (shape, color, size, texture, or
nothing), how many boxes have their middle in it, and what the background is.

`tune` is for pictures of which the weights have not seen the like, such as X-rays for ImageNet's.
The loss is the binary cross-entropy of the words that captions of many images have, but not of
most. Norms keep their statistics; the weights of the epoch with the lowest loss on validation
images are kept. The captions of the whole training split are read, so that such features are not
for runs on a subset of it. Its head is that of Fang et al. 2015, "From Captions to Visual Concepts
and Back", section 3: a word of an image's captions is seen in at least one cell of its views,

    p(word | image) = 1 - prod over cells (1 - sigmoid(w f + b)).

What all pictures of a kind have in common hides what tells them apart, so that f are standardized
channels.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any, TypeVar

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, softplus

from recap.core import checksums
from recap.core.device import mixed, precision_here, select_device
from recap.core.documents import read_json
from recap.core.errors import DataError, FeatureError
from recap.core.files import atomic_path
from recap.core.hashing import derived_seed
from recap.core.log import log, progress
from recap.data.corpus import CORPUS, Corpus, pictures_of
from recap.features.ahead import in_order
from recap.features.extraction import Pictures, initial_weights
from recap.features.grid import STANDARDISED_OVER, Backbone, ChannelScale
from recap.settings.features import BoxPretraining, GridFeatures, WordTuning

NAMES = ("shape", "colour", "size", "texture")
MOST = 2  # middles of boxes told apart in one cell

Batch = TypeVar("Batch")
# pictures of all views, number of views and words of each image
Words = tuple[Tensor, list[int], Tensor]


def fit(
    backbone: Backbone,  # its model is trained, in the mode that it is in
    head: nn.Module,  # reads its maps
    settings: BoxPretraining | WordTuning,
    *,
    epoch: Callable[[], Iterable[Batch]],  # returns the batches of an epoch
    batches: int,  # how many these are
    loss_of: Callable[[Batch], Tensor],
    name: str,  # for messages
) -> Iterator[tuple[str, float]]:
    """Train model and head by AdamW on a one-cycle schedule.

    Yield each epoch's name and mean loss after it.
    """
    optimizer = torch.optim.AdamW(
        [*backbone.model.parameters(), *head.parameters()], weight_decay=0.02
    )
    steps = max(2, settings.epochs * batches)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, settings.learning_rate, total_steps=steps
    )
    for number in range(1, settings.epochs + 1):
        losses = []
        for batch in progress(
            epoch(), name=f"{name}, epoch {number}", unit="batches", total=batches
        ):
            loss = loss_of(batch)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
        yield f"{name}, epoch {number}", fmean(losses)


def _save(weights: Mapping[str, Tensor], out: Path) -> None:
    with atomic_path(out) as temporary:
        save_file({name: value.cpu().contiguous() for name, value in weights.items()}, temporary)


def pretrain(
    *,
    spec: GridFeatures,
    boxes: Path,  # boxes.json of a data set: names and pixel boxes of every picture's objects
    images: Sequence[Path],  # folders or zips with the pictures
    device: str,
    threads: int,
    out: Path,
) -> None:
    """Train the backbone on the boxes of the training pictures; write its weights."""
    settings, target = spec.pretraining, select_device(device)
    assert settings is not None  # the workflow pretrains no others
    torch.set_num_threads(threads)
    checksums.check(boxes)
    records = [
        record
        for record in read_json(boxes)["images"]
        if record["split"] == "train" and record["objects"]
    ]
    if not records:
        raise DataError(f"{boxes}: no training picture has boxes; a backbone cannot learn from it")
    torch.manual_seed(derived_seed(spec.seed, "pretraining", spec.backbone))
    backbone = Backbone(spec, weights=None, device=target)
    source = pictures_of(boxes.with_name(CORPUS), images)
    squares = [
        backbone.prepare(n, [source.open_rgb(record["file"])]) for n, record in enumerate(records)
    ]
    pictures = torch.from_numpy(np.concatenate([square.pixels for square in squares]))
    names = {
        name: sorted({item[name] for record in records for item in record["objects"]})
        for name in NAMES
    }
    grounds = sorted({record["background"] for record in records})
    labels = torch.empty(len(records), len(NAMES) + 2, spec.grid, spec.grid, dtype=torch.long)
    for label, record, square in zip(labels, records, squares, strict=True):
        label[:-1] = cell_labels(record["objects"], square.size, spec.grid, names)
        label[-1] = grounds.index(record["background"])
    labels = labels.to(target)
    with torch.no_grad():
        width = backbone.maps(pictures[:1]).shape[1]
    classes = [*(1 + len(names[name]) for name in NAMES), MOST + 1, len(grounds)]
    heads = nn.ModuleList(nn.Conv2d(width, count, 1) for count in classes).to(target)
    size = min(settings.images_per_batch, len(pictures))
    batches = len(pictures) // size  # the few left over wait for the next epoch's order
    precision = precision_here(settings.precision, target)

    def epoch() -> tuple[Tensor, ...]:
        return torch.randperm(len(pictures))[: batches * size].split(size)

    def loss_of(chosen: Tensor) -> Tensor:
        with mixed(precision, target):
            maps = backbone.maps(pictures[chosen])
        losses = [
            cross_entropy(head(maps.float()), labels[chosen, index])
            for index, head in enumerate(heads)
        ]
        return torch.stack(losses).sum()

    backbone.model.train()
    for name, loss in fit(
        backbone, heads, settings, epoch=epoch, batches=batches, loss_of=loss_of, name="backbone"
    ):
        log.info(f"{name}: loss {loss:.4f}")
    _save(backbone.model.state_dict(), out)


def cell_labels(
    objects: Sequence[Mapping[str, Any]],
    size: tuple[int, int],
    grid: int,
    names: Mapping[str, Sequence[str]],
) -> Tensor:
    """Return what each cell shows, [names + 1, grid, grid]: the names of the box over its center (0
    is none), and how many boxes have their middle in it.

    A box too small to cover any center labels the cell of its center.
    """
    labels = torch.zeros(len(NAMES) + 1, grid, grid, dtype=torch.long)
    for item in objects:
        left, top, right, bottom = item["box"]
        columns, column = _covered(left, right, size[0] / grid, grid)
        rows, row = _covered(top, bottom, size[1] / grid, grid)
        for index, name in enumerate(NAMES):
            labels[index, rows, columns] = 1 + names[name].index(item[name])
        labels[-1, row, column] = min(MOST, int(labels[-1, row, column]) + 1)
    return labels


def _covered(low: float, high: float, cell: float, grid: int) -> tuple[slice, int]:
    """Return the cells along one axis whose centers are
    in [low, high), at least that of its middle; and the latter."""
    middle = min(grid - 1, int((low + high) / 2 / cell))
    inside = [place for place in range(grid) if low <= (place + 0.5) * cell < high] or [middle]
    return slice(inside[0], inside[-1] + 1), middle


def tune(
    *,
    spec: GridFeatures,
    corpus: Path,
    images: Sequence[Path],
    inputs: Path,
    device: str,
    threads: int,
    out: Path,
) -> None:
    """Tune the backbone on the captions of the training images; write its weights."""
    settings, target = spec.word_tuning, select_device(device)
    assert settings is not None  # the workflow tunes no others
    torch.set_num_threads(threads)
    table = Corpus.read(corpus)
    captions, held_out = _caption_words(table, "train"), _caption_words(table, "val")
    words = _chosen_words(captions, settings, dataset=table.dataset)
    pictures = Pictures(table.views(), pictures_of(corpus, images), table)
    labels = {
        image: torch.tensor([word in own for word in words])
        for image, own in {**captions, **held_out}.items()
    }
    training, validation, size = sorted(captions), sorted(held_out), settings.images_per_batch
    torch.manual_seed(derived_seed(spec.seed, "word tuning", spec.backbone))
    backbone = Backbone(spec, weights=initial_weights(spec, inputs), device=target)
    model, precision = backbone.model, precision_here(settings.precision, target)
    log.info(
        f"words to tune on: {len(words)}, from {words[0]!r} to {words[-1]!r}, over {len(captions)} "
        "training images"
    )

    def read(chosen: Sequence[int]) -> Words:
        squares = [backbone.prepare(image, pictures.open(image)) for image in chosen]
        pixels = torch.from_numpy(np.concatenate([square.pixels for square in squares]))
        return (
            pixels,
            [len(square.pixels) for square in squares],
            torch.stack([labels[image] for image in chosen]),
        )

    def batches_of(order: Sequence[int]) -> Iterator[Words]:
        return in_order(
            read, [order[start : start + size] for start in range(0, len(order), size)], threads=1
        )

    def epoch() -> Iterator[Words]:
        return batches_of([training[place] for place in torch.randperm(len(training)).tolist()])

    def loss_of(batch: Words) -> Tensor:
        pixels, counts, wanted = batch
        with mixed(precision, target):
            maps = backbone.maps(pixels)
        return word_loss(head(maps), counts, wanted.to(target))

    def validated() -> float:
        return mean_loss(
            loss_of, progress(batches_of(validation), name="validation", unit="batches")
        )

    with torch.no_grad():
        sample = training[:: -(-len(training) // STANDARDISED_OVER)]
        maps = torch.cat([backbone.maps(pixels) for pixels, _, _ in batches_of(sample)])
    scale = ChannelScale.of(maps.float().flatten(2).transpose(1, 2).cpu().numpy())
    share = torch.stack([labels[image] for image in captions]).double().mean(0)
    cells = spec.grid**2 * sum(len(pictures.views[image]) for image in training) / len(training)
    head = WordHead(scale, share=share, cells=cells).to(target)
    best, weights = math.inf, {}
    log.info(f"tuning: loss on validation {validated():.4f} by the words' shares alone")
    count = math.ceil(len(training) / size)
    # The model stays in evaluation mode: norms keep the statistics of the weights.
    for name, loss in fit(
        backbone, head, settings, epoch=epoch, batches=count, loss_of=loss_of, name="tuning"
    ):
        own = validated()
        log.info(f"{name}: loss {loss:.4f}, on validation {own:.4f}")
        if own < best:
            best, weights = own, {key: value.clone() for key, value in model.state_dict().items()}
    if not weights:
        raise FeatureError(
            "the loss of the words is not finite; lower learning_rate, now "
            f"{settings.learning_rate:.3g}"
        )
    _save(weights, out)


def _caption_words(table: Corpus, split: str) -> dict[int, set[str]]:
    """Return the words that the captions of each image of a split have."""
    words: dict[int, set[str]] = {}
    for image, tokens in zip(
        table.image_id[table.rows(split)].tolist(), table.token_lists(split), strict=True
    ):
        words.setdefault(image, set()).update(tokens)
    return words


def _chosen_words(
    captions: Mapping[int, set[str]], settings: WordTuning, *, dataset: str
) -> list[str]:
    """Return the words to name, the most frequent first."""
    counts = Counter(chain.from_iterable(captions.values()))
    most, least = settings.most_images * len(captions), settings.least_images
    words = [
        word
        for word, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        if least <= count <= most
    ]
    if not words:
        raise DataError(
            f"{dataset}: no word stands in the captions of {least} to {most:.0f} of the "
            f"{len(captions)} training images; change `least_images` or "
            "`most_images` of `word_tuning`"
        )
    return words[: settings.words]


@torch.no_grad()
def mean_loss(loss_of: Callable[[Batch], Tensor], batches: Iterable[Batch]) -> float:
    """Return the mean loss of batches, which change nothing."""
    return fmean(loss_of(batch).item() for batch in batches)


class WordHead(nn.Module):
    """Scores words in each cell of a map whose channels are first standardized."""

    def __init__(self, scale: ChannelScale, *, share: Tensor, cells: float) -> None:
        """Begin with scores that give each word its share [W]
        of the images, whose views have so many cells in all."""
        super().__init__()
        self.mean: Tensor
        self.factor: Tensor
        self.register_buffer("mean", scale.mean[:, None, None])
        self.register_buffer("factor", scale.factor[:, None, None])
        self.words = nn.Conv2d(len(scale.mean), len(share), 1)
        nn.init.zeros_(self.words.weight)
        self.words.bias = nn.Parameter(torch.log(torch.expm1(-torch.log1p(-share) / cells)).float())

    def forward(self, maps: Tensor) -> Tensor:
        """Return scores [V, W, cells] of maps [V, C, grid, grid]."""
        scores: Tensor = self.words((maps.float() - self.mean) * self.factor)
        return scores.flatten(2)


def word_loss(scores: Tensor, counts: Sequence[int], labels: Tensor) -> Tensor:
    """Return the mean binary cross-entropy of the words of B images with V views.

    Scores are [V, W, cells]; ``counts`` are the views of each image; labels [B, W] are True where a
    caption has a word.
    """
    absent = -softplus(scores).sum(-1)  # log p of no cell of a view, [V, W]
    absent = torch.stack([view.sum(0) for view in absent.split(list(counts))]).clamp(max=-1e-6)
    return -torch.where(labels, torch.log(-torch.expm1(absent)), absent).mean()
