"""Trains a backbone before its features are used: to name what boxes hold, or the words of captions.

**Boxes.** To the built-in scenes this is what a detector trained on Visual Genome's objects and attributes is to
photographs (Anderson et al. 2018, section 3.1): captions are not seen, only boxes with names. Each cell of the map says
what the box over it holds (shape, color, size, texture, or nothing), how many boxes have their middle in it, and what
the background is.

**Words**, for pictures of which the weights have not seen the like, such as X-rays for ImageNet's. Fang et al. 2015,
"From Captions to Visual Concepts and Back", section 3: a word of an image's captions is seen in at least one of its
cells, over all views,

    p(word | image) = 1 - prod over cells (1 - sigmoid(w f + b)).

What all pictures of a kind have in common hides what tells them apart, so that f are standardized channels. The loss is
the binary cross-entropy of the words that captions of many images have, but not of most. Norms keep their statistics;
the weights of the epoch with the lowest loss on validation images are kept. The captions of the whole training split
are read, so that such features are not for runs on a subset of it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any, TypeAlias

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, softplus

from recap.core import checksums
from recap.core.device import mixed, precision_here, select_device
from recap.core.documents import read_json
from recap.core.errors import ConfigError, DataError, FeatureError
from recap.core.files import atomic_path
from recap.core.hashing import derived_seed
from recap.core.log import log, progress
from recap.data.corpus.corpus import Corpus
from recap.data.files.images import ImageSource
from recap.features.grid import STANDARDISED_OVER, Backbone, ChannelScale, initial_weights
from recap.features.pictures import decode, in_batches, in_order
from recap.settings.features import BoxPretraining, GridFeatures, WordTuning

NAMES = ("shape", "colour", "size", "texture")
MOST = 2  # middles of boxes told apart in one cell
_Batch: TypeAlias = tuple[Tensor, list[int], Tensor]  # pictures of all views, number of views and words of each image


def _fit(
    parameters: Sequence[nn.Parameter],
    settings: BoxPretraining | WordTuning,
    *,
    batches: int,
    losses: Callable[[int], Iterator[Tensor]],
) -> Iterator[tuple[int, float]]:
    """Train parameters on the losses of each epoch's batches; yield the number of the epoch and its mean loss."""
    optimizer = torch.optim.AdamW(parameters, weight_decay=0.02)
    steps = max(2, settings.epochs * batches)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, settings.learning_rate, total_steps=steps)
    for epoch in range(1, settings.epochs + 1):
        values = []
        for loss in losses(epoch):
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            schedule.step()
            values.append(loss.item())
        yield epoch, fmean(values)


def _save(weights: Mapping[str, Tensor], out: Path) -> None:
    with atomic_path(out) as temporary:
        save_file({name: value.cpu().contiguous() for name, value in weights.items()}, temporary)


def pretrain_backbone(
    *, spec: GridFeatures, boxes: Path, images: Sequence[Path], device: str, threads: int, out: Path
) -> None:
    """Train the backbone on the boxes of the training pictures and write its weights as safetensors.

    ``boxes`` is boxes.json of a data set: names and pixel boxes of every picture's objects.
    """
    if spec.weights != "boxes":
        raise ConfigError(
            f"weights: {spec.weights!r} are not trained; set `weights: boxes` and `pretraining` to train a backbone"
        )
    target = select_device(device)
    torch.set_num_threads(threads)
    checksums.check(boxes)
    records = [record for record in read_json(boxes)["images"] if record["split"] == "train" and record["objects"]]
    if not records:
        raise DataError(f"{boxes}: no training picture has boxes; a backbone cannot learn from it")
    torch.manual_seed(derived_seed(spec.seed, "pretraining", spec.backbone))
    backbone = Backbone(spec, weights=None, device=target)
    sizes, pictures = decode(
        ImageSource(images), [record["file"] for record in records], edge=spec.image_size, resample=backbone.resample
    )
    values = {name: sorted({item[name] for record in records for item in record["objects"]}) for name in NAMES}
    grounds = sorted({record["background"] for record in records})
    objects = [cell_labels(r["objects"], size, spec.grid, values) for r, size in zip(records, sizes, strict=True)]
    ground = torch.tensor([grounds.index(record["background"]) for record in records])
    behind = ground[:, None, None, None].expand(-1, 1, spec.grid, spec.grid)
    labels = torch.cat([torch.stack(objects), behind], 1)  # [R, labels a cell, grid, grid]
    classes = [*(1 + len(values[name]) for name in NAMES), MOST + 1, len(grounds)]
    _fit_cells(backbone, pictures, labels.to(target), classes)
    _save(backbone.model.state_dict(), out)


def cell_labels(
    objects: Sequence[Mapping[str, Any]], size: tuple[int, int], grid: int, values: Mapping[str, Sequence[str]]
) -> Tensor:
    """Return what each cell shows, [names + 1, grid, grid]: the names of the box over its center (0 is none), and how
    many boxes have their middle in it.

    A box too small to cover any center labels the cell of its center.
    """
    labels = torch.zeros(len(NAMES) + 1, grid, grid, dtype=torch.long)
    for item in objects:
        left, top, right, bottom = item["box"]
        columns = _covered(left, right, size[0] / grid, grid)
        rows = _covered(top, bottom, size[1] / grid, grid)
        for index, name in enumerate(NAMES):
            labels[index, rows, columns] = 1 + values[name].index(item[name])
        middle = _middle(top, bottom, size[1] / grid, grid), _middle(left, right, size[0] / grid, grid)
        labels[-1, *middle] = min(MOST, int(labels[-1, *middle]) + 1)
    return labels


def _middle(low: float, high: float, cell: float, grid: int) -> int:
    """Return the cell along one axis that holds the middle of [low, high)."""
    return min(grid - 1, int((low + high) / 2 / cell))


def _covered(low: float, high: float, cell: float, grid: int) -> slice:
    """Return the cells along one axis whose centers are in [low, high), or the one that holds the middle."""
    inside = [place for place in range(grid) if low <= (place + 0.5) * cell < high]
    if inside:
        return slice(inside[0], inside[-1] + 1)
    middle = _middle(low, high, cell, grid)
    return slice(middle, middle + 1)


def _fit_cells(backbone: Backbone, pictures: Tensor, labels: Tensor, classes: Sequence[int]) -> None:
    """Train model and heads on pictures uint8 [R, edge, edge, 3] and labels [R, heads, grid, grid]."""
    settings = backbone.spec.pretraining
    assert settings is not None
    with torch.no_grad():
        width = backbone.maps(pictures[:1]).shape[1]
    heads = nn.ModuleList(nn.Conv2d(width, count, 1) for count in classes).to(backbone.device)
    size = min(settings.images_per_batch, len(pictures))
    batches = len(pictures) // size  # the few left over wait for the next epoch's order
    precision = precision_here(settings.precision, backbone.device)

    def losses(epoch: int) -> Iterator[Tensor]:
        order = torch.randperm(len(pictures))[: batches * size].split(size)
        for chosen in progress(order, name=f"backbone, epoch {epoch}", unit="batches"):
            with mixed(precision, backbone.device):
                maps = backbone.maps(pictures[chosen])
            own = [cross_entropy(head(maps.float()), labels[chosen, index]) for index, head in enumerate(heads)]
            yield torch.stack(own).sum()

    backbone.model.train()
    parameters = [*backbone.model.parameters(), *heads.parameters()]
    for epoch, loss in _fit(parameters, settings, batches=batches, losses=losses):
        log.info(f"backbone, epoch {epoch}: loss {loss:.4f}")
    backbone.model.eval()


def tune_backbone(
    *, spec: GridFeatures, corpus: Path, images: Sequence[Path], inputs: Path, device: str, threads: int, out: Path
) -> None:
    """Tune the backbone on the captions of the training images and write its weights as safetensors.

    ``inputs`` is the folder that the weights to begin with are relative to; pictures are decoded beside the threads.
    """
    settings = spec.word_tuning
    if settings is None:
        raise ConfigError("the features have no `word_tuning`; without it their weights are used as they are")
    target = select_device(device)
    torch.set_num_threads(threads)
    table = Corpus.read(corpus)
    own_words = words_of(table, "train")
    words = chosen_words(own_words, settings, dataset=table.dataset)
    source, views = ImageSource(images), table.views()
    training = _Images(source, views, labels(own_words, words))
    validation = _Images(source, views, labels(words_of(table, "val"), words))
    if not validation.labels:
        raise DataError(f"{table.dataset}: has no validation images, whose loss says which epoch is the best")
    torch.manual_seed(derived_seed(spec.seed, "word tuning", spec.backbone))
    backbone = Backbone(spec, weights=initial_weights(spec, inputs=inputs), device=target)
    span = f"from {words[0]!r} to {words[-1]!r}"
    log.info(f"words to tune on: {len(words)}, {span}, over {len(own_words)} training images")
    _save(_fit_words(backbone, settings, training, validation), out)


def words_of(table: Corpus, split: str) -> dict[int, set[str]]:
    """Return the words that the captions of each image of a split have."""
    ids = table.caption_ids(split)
    words: dict[int, set[str]] = {}
    for image, tokens in zip(table.image_ids_of(ids), table.token_lists(ids), strict=True):
        words.setdefault(image, set()).update(tokens)
    return words


def chosen_words(own: Mapping[int, set[str]], settings: WordTuning, *, dataset: str) -> list[str]:
    """Return the words to name, the most frequent first."""
    counts = Counter(chain.from_iterable(own.values()))
    most, least = settings.most_images * len(own), settings.least_images
    words = [
        word for word, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])) if least <= count <= most
    ]
    if not words:
        raise DataError(
            f"{dataset}: no word stands in the captions of {least} to {most:.0f} of the {len(own)} training "
            "images; change `least_images` or `most_images` of `word_tuning`"
            if own
            else f"{dataset}: has no training images, whose captions have the words to tune on"
        )
    return words[: settings.words]


def labels(own_words: Mapping[int, set[str]], words: Sequence[str]) -> dict[int, Tensor]:
    """Return for each image which of the words it has, bool [W]."""
    return {image: torch.tensor([word in own for word in words]) for image, own in own_words.items()}


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


def _fit_words(
    backbone: Backbone, settings: WordTuning, training: _Images, validation: _Images
) -> Mapping[str, Tensor]:
    """Tune the model with a head that scores the words of each cell; return the weights of the best epoch."""
    target, model = backbone.device, backbone.model
    images, size = sorted(training.labels), settings.images_per_batch
    held_out = list(in_batches(sorted(validation.labels), size))
    share = torch.stack(list(training.labels.values())).double().mean(0)
    cells = backbone.spec.grid**2 * sum(len(training.views[image]) for image in images) / len(images)
    head = WordHead(_channel_scale(backbone, training, size), share=share, cells=cells)
    head.to(target)
    precision = precision_here(settings.precision, target)

    def loss_of(batch: _Batch) -> Tensor:
        pictures, counts, wanted = batch
        with mixed(precision, target):
            maps = backbone.maps(pictures)
        return word_loss(head(maps), counts, wanted.to(target))

    def losses(epoch: int) -> Iterator[Tensor]:
        order = [images[place] for place in torch.randperm(len(images)).tolist()]
        yield from map(loss_of, training.read(list(in_batches(order, size)), backbone, name=f"tuning, epoch {epoch}"))

    def validated(name: str) -> float:
        return mean_loss(loss_of, validation.read(held_out, backbone, name=name))

    model.eval()  # norms keep the statistics of the weights
    best, weights = math.inf, {}
    log.info(f"tuning: loss on validation {validated('validation'):.4f} by the words' shares alone")
    parameters = [*model.parameters(), *head.parameters()]
    for epoch, loss in _fit(parameters, settings, batches=math.ceil(len(images) / size), losses=losses):
        held_out_loss = validated(f"tuning, epoch {epoch}, validation")
        log.info(f"tuning, epoch {epoch}: loss {loss:.4f}, on validation {held_out_loss:.4f}")
        if held_out_loss < best:
            best, weights = held_out_loss, {key: value.clone() for key, value in model.state_dict().items()}
    if not weights:
        raise FeatureError(
            f"the loss of the words is not finite; lower learning_rate, now {settings.learning_rate:.3g}"
        )
    return weights


class WordHead(nn.Module):
    """Scores words in each cell of a map whose channels are first standardized."""

    def __init__(self, scale: ChannelScale, *, share: Tensor, cells: float) -> None:
        """Begin with scores that give each word its ``share`` [W] of images with so many cells over all their views."""
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
    """Return the mean binary cross-entropy of the words of images.

    Args:
        scores: of the cells of all views of all images, [V, W, cells].
        counts: number of views of each of B images, V in all.
        labels: [B, W], True where a caption of the image has the word.
    """
    absent = -softplus(scores).sum(-1)  # log p of no cell of a view, [V, W]
    absent = torch.stack([view.sum(0) for view in absent.split(list(counts))]).clamp(max=-1e-6)
    return -torch.where(labels, torch.log(-torch.expm1(absent)), absent).mean()


@torch.no_grad()
def mean_loss(loss_of: Callable[[_Batch], Tensor], batches: Iterable[_Batch]) -> float:
    """Return the mean loss of batches, which change nothing."""
    return fmean(loss_of(batch).item() for batch in batches)


def _channel_scale(backbone: Backbone, training: _Images, size: int) -> ChannelScale:
    """Return the scale of the channels over some training images, as the weights are at first."""
    images = sorted(training.labels)
    sample = images[:: -(-len(images) // STANDARDISED_OVER)]
    with torch.no_grad():
        read = training.read(list(in_batches(sample, size)), backbone, name="scale")
        maps = [backbone.maps(pictures) for pictures, _, _ in read]
    return ChannelScale.of(torch.cat(maps).float().flatten(2).transpose(1, 2).cpu().numpy())
