"""Does a model look? The loss of references with their own images, and with the features of other images.

    loss = mean over an image's reference tokens of -log p(token | tokens before it, image)

A model that has learned the language of captions alone loses nothing when images are exchanged. Each image is given the
features of the next one of its split in the order of ids, the last one those of the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor

from recap.core.documents import write_json
from recap.core.errors import DataError
from recap.core.log import log, progress
from recap.data.corpus import Corpus
from recap.data.vocabulary import PAD
from recap.evaluation.captioned import BATCH
from recap.evaluation.figure import DrawnModels
from recap.models.base import Captioner
from recap.models.images import Images
from recap.nn.fast import fixed_weights
from recap.runs.captions import batch_tensor, split_captions
from recap.runs.saved import open_runs
from recap.settings.figures import OtherImagesFigure
from recap.statistics.comparison import Paired, compare_paired


def compare_images(figure: OtherImagesFigure, models: DrawnModels, files: Mapping[str, Path]) -> None:
    """Write, for each model, both losses and the paired t-test of their difference over images, as JSON."""
    corpus, split = Corpus.read(models.corpus), figure.split
    found = {}
    for label, run in models.runs.items():
        model, sources, vocab = open_runs([run], vocabulary=models.vocabulary, features=models.features)
        captions = split_captions(corpus, vocab, split)
        ids = sorted(captions)
        if len(ids) < 2:
            raise DataError(f"{models.corpus}: the split {split!r} has one image, and no other to exchange it with")
        own, other = [], []
        for first in progress(range(0, len(ids), BATCH), name=label, unit="batches"):
            batch = ids[first : first + BATCH]
            tokens = batch_tensor(captions, batch)
            strangers = [ids[(place + 1) % len(ids)] for place in range(first, first + len(batch))]
            own += caption_losses(model, sources.read(batch), tokens).tolist()
            other += caption_losses(model, sources.read(strangers), tokens).tolist()
        test = compare_paired(own, other)
        found[label] = {"own": sum(own) / len(own), "other": sum(other) / len(other), "difference": asdict(test)}
        log.info(f"{label}: {_said(found[label]['own'], found[label]['other'], test)}")
    write_json(files["other_images.json"], {"split": split, "models": found})


def _said(own: float, other: float, test: Paired) -> str:
    p = "" if test.p is None else f", p {test.p:.2g}"
    return f"loss {own:.3f} with the images themselves, {other:.3f} with others, over {test.images} images{p}"


@torch.no_grad()
@fixed_weights()
def caption_losses(model: Captioner, images: Images, tokens: Tensor) -> Tensor:
    """Return the mean loss per token of each image's captions, [B]; tokens: [B, C, T + 1] with <bos> and <eos>."""
    inputs, targets = tokens[..., :-1], tokens[..., 1:]
    log_p = model.log_probabilities(model.decode(inputs, model.encode(images)))
    losses = -log_p.gather(-1, targets[..., None])[..., 0].masked_fill(targets == PAD, 0)
    return losses.sum((1, 2)) / (targets != PAD).sum((1, 2))
