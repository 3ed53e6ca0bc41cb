"""Beam search with shared caches, against the two ways of released code."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from benchmarks import cached, plain
from benchmarks.figures import Case
from benchmarks.shapes import IMAGES, LENGTH, WORDS, batch, models, vectors
from benchmarks.step import floor
from recap.decoding.beam import beam_search
from recap.decoding.step import DecodingBatch
from recap.models.base import Captioner
from recap.models.images import Images
from recap.nn.fast import fixed_weights
from recap.settings import DecodingSettings


def search(
    model: Captioner,
    *,
    images: int = IMAGES,
    beam: int = 5,
    length: int = LENGTH,
    given: Images | None = None,
) -> Callable[[], Tensor]:
    """Return a search of random images, or of those given, which run to their full length."""
    found = batch(images).images if given is None else given

    @fixed_weights()
    def run() -> Tensor:
        state = model.start(model.encode(found))
        start = DecodingBatch(len(found), plain.BOS, plain.EOS, plain.PAD, found.device)
        return beam_search(
            model.step, state, start, DecodingSettings(beam=beam, max_length=length)
        ).tokens

    return run


def transformer(images: int = IMAGES) -> Case:
    """6+6 layers of width 512, random weights, against encoding the prefix anew for every word."""
    return _against(_named("beam.transformer", images), plain.beam_search, images)


def transformer_cached(images: int = IMAGES) -> Case:
    """The same against caches that are concatenated and copied."""
    return _against(_named("beam.transformer.cached", images), cached.beam_search, images)


def _named(name: str, images: int) -> str:
    return name if images == IMAGES else f"{name}.{images}"


def _against(name: str, released: Callable[..., Tensor], images: int) -> Case:
    model, slow = (m.eval() for m in models("transformer"))
    data, ours = batch(images), search(model, images=images)

    def reference() -> Tensor:
        return released(slow, *vectors(data), 5, LENGTH)

    same = (ours() == reference()).float().mean().item()
    return Case(
        name,
        f"6+6 layers, {images} images x 50 regions, beam 5, {LENGTH} words of {WORDS}",
        ours,
        reference,
        agreement=f"{100 * same:.1f} % of the words equal",
        more=lambda: floor(ours),
    )
