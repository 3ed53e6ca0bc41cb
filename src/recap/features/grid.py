"""Grid features: the maps of a timm backbone, pooled to a square grid of vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from recap.core.device import half_precision, select_device
from recap.core.errors import ConfigError
from recap.core.hashing import sha256_file
from recap.features.attributes import CHANNEL_SCALE, describe
from recap.features.backbones import check_stage, create, timm_library
from recap.features.extraction import Pictures, job_hash
from recap.features.job import ExtractionJob
from recap.features.maps import ChannelScale, as_maps
from recap.features.origins import ShownPictures, check_unchanged, joint_hash
from recap.features.pictures import batches, decode, in_order, resampling
from recap.features.records import ImageFeatures
from recap.features.weights import load_strictly, weights_hash
from recap.features.write import build_store
from recap.settings.features import GridFeatures

STANDARDISED_OVER = 256  # training pictures over which features are standardized
_CODE = ("recap.features.backbones", "recap.features.grid", "recap.features.maps")


def extract_grid(spec: GridFeatures, job: ExtractionJob) -> None:
    """Write the grid features of all pictures of a corpus into one store; an interrupted run is taken up again.

    A picture is resized to ``image_size`` x ``image_size`` without regard to its aspect and without a crop (the whole
    picture is seen), normalised as the backbone's timm config says, and its map is averaged to ``grid`` x ``grid``
    cells, which become rows in raster order (left to right, then down); an image with several views has the rows of
    the first view, then those of the next. Where it is asked for, and with
    random weights, which have no natural scale, channels are brought to mean 0 and standard deviation 1 over some
    training pictures.

    Args:
        spec: backbone, weights and grid.
        job: the pictures; ``threads`` batches are decoded and computed at a time.
    """
    target = select_device(job.device)
    found = Pictures.find(job)
    source, sample, sample_hash = found.source, {}, []
    if spec.standardises():
        training = list(found.training().items())
        sample = dict(training[:: -(-len(training) // STANDARDISED_OVER)])
    files = {**sample, **found.views}
    backbone = Backbone(spec, weights=weights_file(spec, inputs=job.inputs, trained=job.trained), device=target)

    def work(ids: list[int]) -> list[ImageFeatures]:
        names = list(chain.from_iterable(files[image_id] for image_id in ids))
        sizes, pictures = decode(source, names, edge=spec.image_size, resample=backbone.resample)
        values = backbone(pictures).numpy()
        return list(_together([(image_id, len(files[image_id])) for image_id in ids], sizes, values))

    def extract(groups: list[list[int]]) -> Iterator[ImageFeatures]:
        return chain.from_iterable(in_order(work, batches(groups, spec.batch_size), threads=job.threads))

    with _one_thread_per_operator():
        if sample:
            origins = ShownPictures(source, sample)
            before = {image_id: origins.mark(image_id) for image_id in sample}
            rows = np.concatenate([np.asarray(record.values) for record in extract([list(sample)])])
            backbone.scale = ChannelScale.of(rows.reshape(-1, spec.grid**2, rows.shape[1]))
            # Every image's features depend on these pictures.
            sample_hash = [joint_hash([origins.content(image_id) for image_id in sample])]
            check_unchanged(origins, before)
        attributes = backbone.attributes()
        build_store(
            **job.target(),
            ids=list(found.views),
            shard_size=spec.shard_size,
            dtype=spec.dtype,
            job=job_hash(spec, attributes, _CODE, *sample_hash),
            attributes=attributes,
            extract=extract,
            origins=found.origins,
        )


def _together(
    views: Sequence[tuple[int, int]], sizes: Sequence[tuple[int, int]], values: np.ndarray
) -> Iterator[ImageFeatures]:
    """Yield each image's features: the rows of all its views, one view after the other, and the first view's size.

    Args:
        views: image id and number of views of each image.
        sizes: width and height of each view.
        values: [views of all images, cells, dim].
    """
    start = 0
    for image_id, count in views:
        yield ImageFeatures(image_id, sizes[start], np.concatenate(values[start : start + count]))
        start += count


class Backbone:
    """A timm model that turns pictures into rows of features.

    Attributes:
        scale: what brings the channels to one scale; None leaves them as they are.
    """

    def __init__(self, spec: GridFeatures, *, weights: Path | None, device: torch.device) -> None:
        """Build the model and load its weights; without a file they are pretrained or random, as the spec says."""
        self.spec = spec
        self.device = device
        self.precision = half_precision(device)
        model = create(spec)
        if weights is None:
            self.weights_sha256 = weights_hash(model)
        else:
            load_strictly(model, weights, backbone=spec.backbone)
            self.weights_sha256 = sha256_file(weights)
        if spec.out_index is not None:
            check_stage(model, spec)
        self.model: Any = model.eval().to(device).to(memory_format=torch.channels_last)
        data = timm_library().data.resolve_model_data_config(model)
        self.interpolation = str(data["interpolation"])
        self.resample = resampling(self.interpolation)
        self.scale: ChannelScale | None = None
        self.mean, self.sd = list(data["mean"]), list(data["std"])

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
        made_with = f"timm {timm_library().__version__}, torch {torch.__version__}, {self.device.type}"
        described = describe(self.spec, weights_sha256=self.weights_sha256, made_with=made_with, **more)
        return {**described, CHANNEL_SCALE: scale.text()} if scale else described

    @torch.inference_mode()
    def __call__(self, pictures: Tensor) -> Tensor:
        """Return features float32 [B, grid * grid, dim] on the CPU for pictures uint8 [B, edge, edge, 3]."""
        with torch.autocast(self.device.type, self.precision, enabled=self.precision != torch.float32):
            maps = self.maps(pictures).float()
        rows = maps.flatten(2).transpose(1, 2).contiguous().cpu()
        return self.scale(rows) if self.scale else rows

    def maps(self, pictures: Tensor) -> Tensor:
        """Return maps [B, C, grid, grid] for pictures uint8 [B, edge, edge, 3]; a gradient flows."""
        mean, sd = (torch.tensor(values, device=self.device).view(1, 3, 1, 1) for values in (self.mean, self.sd))
        # A permuted [B, H, W, C] tensor is channels_last already.
        maps = self._stage((pictures.to(self.device).permute(0, 3, 1, 2).float() / 255 - mean) / sd)
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
