"""Whether a device computes what the CPU does: loss, gradient and captions of every kind in every precision."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from recap.core.device import mixed, prepare_gpu
from recap.data.vocabulary import BANNED, BOS, EOS, PAD, SPECIAL
from recap.decoding.beam import beam_search
from recap.decoding.step import DecodingBatch, with_banned_tokens
from recap.models.base import Captioner, build_model
from recap.models.compiled import compile_passes
from recap.models.images import Images, InputSpec, Stream
from recap.settings import CrossEntropy, DecodingSettings, ModelConfig
from recap.settings.models import MODELS
from recap.training.batches import Batch
from recap.training.objectives import CrossEntropyObjective

IMAGES, CAPTIONS, TOKENS, VECTORS, IDS = 4, 3, 7, 9, 40
# The relative error of loss and gradient that a precision may have in models so small, whose roundings do not average
# out, and the share of captions that must be equal: with random weights half the bits of a product may turn any.
BOUNDS = {"float32": (1e-4, 1.0), "compiled": (1e-4, 1.0), "tf32": (2e-2, 0.0), "bf16": (1e-1, 0.0)}


def agreements(device: torch.device, *, compiled: bool) -> Iterator[dict[str, Any]]:
    """Compare every registered kind, at a tiny size and without dropout, with float64 on the CPU.

    A row has relative errors of the loss and of the whole gradient, and the share of equal captions of a beam search.
    """
    precisions = ["float32", *(["tf32"] if device.type == "cuda" else []), "bf16", *(["compiled"] if compiled else [])]
    for kind, config in MODELS.classes().items():
        settings = without_dropout(config.example())
        exact_loss, exact_gradient, exact_captions = _computed(settings, torch.device("cpu"), "float64")
        for precision in precisions:
            loss, gradient, captions = _computed(settings, device, precision)
            errors = abs(loss / exact_loss - 1), float((gradient - exact_gradient).norm() / exact_gradient.norm())
            equal = float((captions == exact_captions).all(-1).double().mean())
            holds = max(errors) <= BOUNDS[precision][0] and equal >= BOUNDS[precision][1]
            names = {"kind": kind, "precision": precision}
            yield {**names, "loss": errors[0], "gradient": errors[1], "captions": equal, "holds": holds}


def without_dropout(settings: ModelConfig) -> ModelConfig:
    """Return the settings with all dropout at 0; its keys end in that word."""
    changes = {key: 0.0 for key in type(settings).model_fields if key.endswith("dropout")}
    return type(settings).model_validate({**settings.model_dump(), **changes})


def random_images(widths: Mapping[str, int], images: int, vectors: Mapping[str, int]) -> Images:
    """Return images with so many random vectors, and their boxes, in every stream."""
    size = torch.tensor([640.0, 480.0])  # of a picture, in pixels
    streams = {}
    for name, width in widths.items():
        values, mask = torch.rand(images, vectors[name], width), torch.ones(images, vectors[name], dtype=torch.bool)
        boxes = (torch.rand(images, vectors[name], 2, 2).sort(2).values * size).flatten(2)
        streams[name] = Stream(values, mask, boxes, size.expand(images, 2))
    return Images(streams)


def _computed(settings: ModelConfig, device: torch.device, precision: str) -> tuple[float, Tensor, Tensor]:
    """Return the loss, the whole gradient [P] and the words [IMAGES, T] of a beam, of the same model and data."""
    torch.manual_seed(0)
    model = build_model(settings, InputSpec(settings.example_streams, IDS))
    images = random_images(settings.example_streams, IMAGES, dict.fromkeys(settings.example_streams, VECTORS))
    words = torch.randint(len(SPECIAL), IDS, (IMAGES, CAPTIONS, TOKENS))
    tokens = torch.cat([torch.full_like(words[..., :1], BOS), words, torch.full_like(words[..., :1], EOS)], -1)
    if precision == "float64":
        model = model.double()
        images = Images({name: _double(stream) for name, stream in images.streams.items()})
    if device.type == "cuda":
        prepare_gpu(tf32=precision == "tf32")
    model = model.to(device)
    if precision == "compiled":
        compile_passes(model)
    batch = Batch.of(list(range(IMAGES)), images, tokens).to(device)
    with mixed("bf16" if precision == "bf16" else "float32", device):
        loss = CrossEntropyObjective(model, CrossEntropy(epochs=1, learning_rate=0.1))(batch).loss
    loss.backward()
    gradient = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    return loss.item(), torch.cat([each.flatten().double().cpu() for each in gradient]), _words(model, batch, precision)


def _double(stream: Stream) -> Stream:
    assert stream.boxes is not None and stream.sizes is not None
    return Stream(stream.values.double(), stream.mask, stream.boxes.double(), stream.sizes.double())


@torch.no_grad()
def _words(model: Captioner, batch: Batch, precision: str) -> Tensor:
    device = batch.images.device
    model.eval()
    with mixed("bf16" if precision == "bf16" else "float32", device):
        start = model.start(model.encode(batch.images))
        decoding = DecodingBatch(IMAGES, BOS, EOS, PAD, device)
        settings = DecodingSettings(beam=3, max_length=TOKENS)
        return beam_search(with_banned_tokens(model.step, BANNED), start, decoding, settings).tokens[:, 0].cpu()
