"""Grid features: the maps of a timm backbone, pooled to a square grid of vectors."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from recap.core.device import select_device
from recap.core.errors import ConfigError
from recap.features.attributes import CHANNEL_SCALE, describe
from recap.features.backbones import TimmEncoder, check_stage
from recap.features.extraction import ExtractionJob, Pictures, encoded, extract
from recap.features.origins import ShownPictures, check_unchanged, joint_hash
from recap.features.pictures import decode, in_batches
from recap.features.records import ImageFeatures
from recap.settings.features import GridFeatures

STANDARDISED_OVER = 256  # training pictures over which features are standardized
_CODE = ("recap.features.grid",)
Decoded = tuple[int, list[tuple[int, int]], Tensor]  # image id, sizes of its views, pictures [views, edge, edge, 3]


def extract_grid(spec: GridFeatures, job: ExtractionJob) -> None:
    """Write the grid features of all pictures of a corpus into one store; an interrupted run is taken up again.

    A picture is resized to ``image_size`` x ``image_size`` without regard to its aspect and without a crop (the whole
    picture is seen), normalised as the backbone's timm config says, and its map is averaged to ``grid`` x ``grid``
    cells, which become rows in raster order (left to right, then down); an image with several views has the rows of
    the first view, then those of the next. Where it is asked for, and with random weights, which have no natural
    scale, channels are brought to mean 0 and standard deviation 1 over some training pictures.
    """
    device = select_device(job.device)
    pictures = Pictures.find(job)
    sample: dict[int, list[str]] = {}
    if spec.standardises():
        training, views = pictures.corpus.image_ids("train"), pictures.corpus.views()
        sample = {image_id: views[image_id] for image_id in training[:: -(-len(training) // STANDARDISED_OVER)]}
    files = {**sample, **pictures.views}
    backbone = Backbone(spec, weights=weights_file(spec, inputs=job.inputs, trained=job.trained), device=device)

    def load(image_id: int) -> Decoded:
        return image_id, *decode(pictures.source, files[image_id], edge=spec.image_size, resample=backbone.resample)

    def encode(images: list[Decoded]) -> Iterator[ImageFeatures]:
        values = backbone(torch.cat([views for _, _, views in images])).numpy()  # [views of all images, cells, dim]
        start = 0
        for image_id, sizes, _ in images:
            yield ImageFeatures(image_id, sizes[0], np.concatenate(values[start : start + len(sizes)]))
            start += len(sizes)

    def batch(images: Iterator[Decoded]) -> Iterator[list[Decoded]]:
        return in_batches(images, spec.batch_size)

    with _one_thread_per_operator():
        hashes = []
        if sample:
            origins = ShownPictures(pictures.source, sample)
            before = {image_id: origins.mark(image_id) for image_id in sample}
            records = encoded([list(sample)], load, batch, encode, threads=job.threads, parallel=True)
            rows = np.concatenate([np.asarray(record.values) for record in records])
            backbone.scale = ChannelScale.of(rows.reshape(-1, spec.grid**2, rows.shape[1]))
            # Every image's features depend on these pictures.
            hashes = [joint_hash([origins.content(image_id) for image_id in sample])]
            check_unchanged(origins, before)
        extract(
            spec,
            job,
            encode,
            batch,
            ids=list(pictures.views),
            origins=pictures.origins,
            load=load,
            attributes=backbone.attributes(),
            code=_CODE,
            files=hashes,
            parallel=True,
        )


class Backbone(TimmEncoder):
    """A timm model that turns pictures into rows of features.

    Attributes:
        scale: what brings the channels to one scale; None leaves them as they are.
    """

    def __init__(self, spec: GridFeatures, *, weights: Path | None, device: torch.device) -> None:
        super().__init__(spec, weights=weights, device=device)
        self.spec = spec
        if spec.out_index is not None:
            check_stage(self.model, spec)
        self.scale: ChannelScale | None = None

    def attributes(self) -> dict[str, str]:
        """Return what the store says of the extractor; batch and shard sizes do not define it."""
        scale = self.scale
        more: dict[str, Any] = {
            "preprocessing": {
                "resize": "squashed to image_size x image_size, no crop",
                "interpolation": self.interpolation,
                "mean": self.mean,
                "std": self.sd,
            }
        }
        if scale:
            more["standardised_over"] = scale.pictures
        more["precision"] = str(self.precision).removeprefix("torch.")
        described = describe(self.spec, weights_sha256=self.weights_sha256, made_with=self.made_with, **more)
        return {**described, CHANNEL_SCALE: scale.text()} if scale else described

    @torch.inference_mode()
    def __call__(self, pictures: Tensor) -> Tensor:
        """Return features float32 [B, grid * grid, dim] on the CPU for pictures uint8 [B, edge, edge, 3]."""
        with self.mixed():
            maps = self.maps(pictures).float()
        rows = maps.flatten(2).transpose(1, 2).contiguous().cpu()
        return self.scale(rows) if self.scale else rows

    def maps(self, pictures: Tensor) -> Tensor:
        """Return maps [B, C, grid, grid] for pictures uint8 [B, edge, edge, 3]; a gradient flows."""
        maps = self._stage(self.normalized(pictures))
        grid = self.spec.grid
        if min(maps.shape[-2:]) < grid:
            raise ConfigError(
                f"{self.spec.backbone}: gives maps of {maps.shape[-2]} x {maps.shape[-1]} cells, too coarse for `grid: "
                f"{grid}`; use a larger image_size, an earlier out_index or a smaller grid"
            )
        # A mean over one cell is that cell; torch's pooling would take a tenth of a training step to say so.
        return maps if maps.shape[-2:] == (grid, grid) else functional.adaptive_avg_pool2d(maps, grid)

    def _stage(self, inputs: Tensor) -> Tensor:
        """Return feature maps [B, C, H, W] of the chosen stage."""
        if self.spec.out_index is not None:
            options = {"indices": [self.spec.out_index], "intermediates_only": True, "stop_early": True}
            maps: Tensor = self.model.forward_intermediates(inputs, output_fmt="NCHW", **options)[0]
            return maps
        found = self.model.forward_features(inputs)
        return as_maps(found, model=self.model, backbone=self.spec.backbone)


def as_maps(found: Tensor, *, model: nn.Module, backbone: str) -> Tensor:
    """Return what timm's ``forward_features`` gave as maps [B, C, H, W].

    Tokens [B, prefix + H * W, C] lose their prefix (class and register tokens); maps [B, H, W, C] are turned.
    """
    if found.ndim == 4:
        return found.permute(0, 3, 1, 2) if str(getattr(model, "output_fmt", "NCHW")) == "NHWC" else found
    tokens = found[:, getattr(model, "num_prefix_tokens", 0) :] if found.ndim == 3 else found
    side = math.isqrt(tokens.shape[1])
    if found.ndim != 3 or side * side != tokens.shape[1]:
        raise ConfigError(
            f"{backbone}: gives features of shape {list(found.shape)}, no square grid; use another backbone"
        )
    return tokens.transpose(1, 2).unflatten(2, (side, side))


@dataclass(frozen=True)
class ChannelScale:
    """Brings channels to one scale: (values - mean) * factor has mean 0 and standard deviation 1 over some pictures."""

    mean: Tensor  #: of each channel, float32 [C]
    factor: Tensor  #: one over the standard deviation of each channel, float32 [C]
    pictures: int  #: over how many

    @staticmethod
    def of(values: np.ndarray) -> ChannelScale:
        """Return the scale of values [pictures, cells, C]; a channel that never moves gets factor 0."""
        mean, sd = values.mean((0, 1), dtype=np.float64), values.std((0, 1), dtype=np.float64)
        moves = sd > 1e-6 * np.abs(mean)  # what moves less is rounding, which is not amplified
        factor = np.divide(1.0, sd, out=np.zeros_like(sd), where=moves & (sd > 0))
        return ChannelScale(torch.from_numpy(mean).float(), torch.from_numpy(factor).float(), len(values))

    @staticmethod
    def of_text(text: str) -> ChannelScale:
        """Return the scale that :meth:`text` wrote."""
        try:
            said = json.loads(text)
            mean, factor = (np.frombuffer(base64.b64decode(said[name]), "<f4") for name in ("mean", "factor"))
            return ChannelScale(torch.tensor(mean), torch.tensor(factor), int(said["pictures"]))
        except (KeyError, TypeError) as error:
            raise ValueError(f"no mean, factor and number of pictures of channels ({error})") from error

    def __call__(self, values: Tensor) -> Tensor:
        """Return values [..., C] on this scale."""
        return (values - self.mean) * self.factor

    def text(self) -> str:
        """Return all three as JSON, the channels' numbers as base64 of float32, lowest byte first."""
        mean, factor = (self._base64(numbers) for numbers in (self.mean, self.factor))
        return json.dumps({"pictures": self.pictures, "mean": mean, "factor": factor})

    @staticmethod
    def _base64(numbers: Tensor) -> str:
        return base64.b64encode(numbers.numpy().astype("<f4").tobytes()).decode()


def weights_file(spec: GridFeatures, *, inputs: Path, trained: Path | None) -> Path | None:
    """Return the file with a backbone's weights, or None where timm gives them."""
    if not spec.trained_on():
        return initial_weights(spec, inputs=inputs)
    if trained is None:
        command = "pretrain" if spec.trained_on() == "boxes" else "tune"
        raise ConfigError(f"weights {spec.weights!r}: say with --trained which file the step `{command}` made")
    return trained


def initial_weights(spec: GridFeatures, *, inputs: Path) -> Path | None:
    """Return the file that `weights` names, or None where timm gives them."""
    return None if spec.weights in ("pretrained", "random") else inputs / spec.weights


@contextmanager
def _one_thread_per_operator() -> Iterator[None]:
    """Leave the parallel work to our own threads, also in the threads that start inside."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
