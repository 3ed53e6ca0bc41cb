"""Captions of many images, batch by batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from recap.core.log import progress
from recap.data.vocabulary import BOS, EOS, PAD, UNK
from recap.decoding.beam import beam_search
from recap.decoding.constraints import Constraint
from recap.decoding.diverse import diverse_beam_search
from recap.decoding.step import forbidding
from recap.features.store import FeatureStore
from recap.models.base import Captioner
from recap.training.batches import ahead


@torch.no_grad()
def decode_images(
    model: Captioner,
    store: FeatureStore,
    image_ids: Sequence[int],
    *,
    beam: int,
    max_length: int,
    length_penalty: float,
    batch_size: int,
    device: torch.device,
    name: str,
    constraint: Constraint | None = None,
    groups: int = 1,
    diversity: float = 0.0,
) -> dict[int, list[int]]:
    """Return the best caption of each image as word ids, without <bos>, <eos> and padding. <unk> is never said."""
    model.eval()
    step = forbidding(model.step, (PAD, BOS, UNK))
    captions: dict[int, list[int]] = {}
    batches = [image_ids[first : first + batch_size] for first in range(0, len(image_ids), batch_size)]
    reading: Iterable = ahead((ids, *store.read(ids)) for ids in batches)
    for ids, features, mask in progress(reading, name=name, unit="batches", total=len(batches)):
        state = model.start(model.encode(features.to(device), mask.to(device)))
        options: dict[str, Any] = {
            "images": len(ids),
            "max_length": max_length,
            "length_penalty": length_penalty,
            "device": device,
        }
        options |= {"bos": BOS, "eos": EOS, "pad": PAD, "constraint": constraint}
        if groups > 1:
            tokens, scores = diverse_beam_search(
                step, state, groups=groups, beam=beam // groups, strength=diversity, **options
            )
        else:
            tokens, scores = beam_search(step, state, beam=beam, **options)
        rows = tokens[torch.arange(len(ids)), scores.argmax(1).cpu()].tolist()
        captions |= {
            image: [word for word in row if word not in (PAD, EOS)] for image, row in zip(ids, rows, strict=True)
        }
    return captions
