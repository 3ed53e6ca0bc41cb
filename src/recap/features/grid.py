"""Grid features: the maps of a timm backbone, pooled to a square grid of vectors (the only file that knows timm)."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from recap.core.config import GridFeatures
from recap.core.device import select_device
from recap.core.errors import ConfigError, FeatureError, nearest
from recap.core.manifests import sha256_file, source_digest, value_hash
from recap.core.seeding import derived_seed
from recap.data.corpus import Corpus
from recap.data.images import ImageSource
from recap.features.maps import as_maps, channel_scale
from recap.features.pictures import batches, decode, in_order, resampling
from recap.features.torchvision_ops import ensure_torchvision
from recap.features.weights import load_strictly, weights_hash
from recap.features.writer import ImageFeatures, build_store

_ACTIVATIONS = {"relu": nn.ReLU, "relu6": nn.ReLU6, "gelu": nn.GELU, "silu": nn.SiLU}
_SAMPLE = 256  # training pictures over which features of random weights are standardised
# The files whose code decides about the values of a shard.
_SOURCES = (
    *(f"features/{name}" for name in ("grid", "maps", "pictures", "records", "weights", "writer")),
    "data/images",
)


def extract_grid(
    *,
    spec: GridFeatures,
    corpus: Path,
    images: Sequence[Path],
    inputs: Path,
    trained: Path | None,
    device: str,
    threads: int,
    shards: Path,
    out: Path,
) -> None:
    """Write the grid features of all pictures of a corpus into one store; an interrupted run is taken up again.

    A picture is resized to ``image_size`` x ``image_size`` without regard to its aspect and without a crop (the whole
    picture is seen), normalised as the backbone's timm config says, and its map is averaged to ``grid`` x ``grid``
    cells, which become rows in raster order (left to right, then down). Features of random weights have no scale of
    their own: their channels are brought to mean 0 and standard deviation 1 over some training pictures.

    Args:
        spec: backbone, weights and grid.
        corpus: corpus.parquet.
        images: folders or zips with the pictures.
        inputs: folder that a weights file is relative to.
        trained: weights that `recap.features.pretrain` made, for weights 'boxes'.
        device: auto, cpu or cuda.
        threads: how many batches are decoded and computed at a time.
        shards: folder for unfinished work.
        out: the store.

    Raises:
        RecapError: an unknown backbone, weights or pictures that are missing or broken, no GPU where one is asked for.
    """
    target = select_device(device)
    table = Corpus.read(corpus)
    files = table.files()
    source = ImageSource(images)
    for file in source.missing(files.values())[:1]:
        source.read(file)  # raises, and says where it was looked for
    backbone = Backbone(spec, weights=weights_file(spec, inputs=inputs, trained=trained), device=target)
    places = [[path.name, path.stat().st_size if path.is_file() else None] for path in images]
    made_from = [table.source_sha256, places, sorted(files.items())]

    def work(ids: list[int]) -> list[ImageFeatures]:
        names = [files[image_id] for image_id in ids]
        sizes, pictures = decode(source, names, edge=spec.image_size, resample=backbone.resample)
        values = backbone(pictures).numpy()
        return [ImageFeatures(*record) for record in zip(ids, sizes, values, strict=True)]

    def extract(groups: list[list[int]]) -> Iterator[ImageFeatures]:
        return chain.from_iterable(in_order(work, batches(groups, spec.batch_size), threads=threads))

    with _one_thread_an_operator():
        if spec.weights == "random":
            ids = table.image_ids("train")
            sample = ids[:: -(-len(ids) // _SAMPLE)]
            backbone.standardise(np.stack([record.values for record in extract([sample])]))
        attributes = backbone.attributes()
        build_store(
            out=out,
            shards=shards,
            ids=list(files),
            shard_size=spec.shard_size,
            dtype=spec.dtype,
            job=value_hash([spec.model_dump(mode="json"), attributes, made_from, source_digest(*_SOURCES)]),
            attributes=attributes,
            extract=extract,
        )


class Backbone:
    """A timm model that turns pictures into rows of features."""

    def __init__(self, spec: GridFeatures, *, weights: Path | None, device: torch.device) -> None:
        """Build the model and load its weights; without a file they are pretrained or random, as the spec says.

        Raises:
            ConfigError: unknown backbone, or an activation, size or stage that it has not.
            FeatureError: the weights cannot be had or do not fit.
        """
        self.spec = spec
        self.device = device
        self.precision = torch.float32
        if device.type == "cuda":
            self.precision = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
        model = _create(spec)
        if weights is None:
            self.weights_sha256 = weights_hash(model)
        else:
            load_strictly(model, weights, backbone=spec.backbone)
            self.weights_sha256 = sha256_file(weights)
        if spec.out_index is not None:
            _check_stage(model, spec)
        self.model: Any = model.eval().to(device).to(memory_format=torch.channels_last)
        data = _timm().data.resolve_model_data_config(model)
        self.interpolation = str(data["interpolation"])
        self.resample = resampling(self.interpolation)
        self.scale: tuple[Tensor, Tensor] | None = None
        self.mean, self.sd = list(data["mean"]), list(data["std"])

    def standardise(self, values: np.ndarray) -> None:
        """Bring each channel to mean 0 and standard deviation 1 over ``values`` [images, cells, dim] from now on."""
        mean, factor = channel_scale(values)
        self.scale = (torch.from_numpy(mean), torch.from_numpy(factor))
        self.standardised_over = len(values)

    def attributes(self) -> dict[str, str]:
        """Return what the store says of the extractor; batch and shard sizes do not define it."""
        extractor: dict[str, Any] = self.spec.model_dump(mode="json", exclude={"batch_size", "shard_size"})
        extractor["preprocessing"] = {
            "resize": "squashed to image_size x image_size, no crop",
            "interpolation": self.interpolation,
            "mean": self.mean,
            "std": self.sd,
        }
        if self.scale:
            extractor["standardised"] = f"each channel, over {self.standardised_over} training pictures"
        extractor["precision"] = str(self.precision).removeprefix("torch.")
        return {
            "extractor": json.dumps(extractor, sort_keys=True),
            "extractor_hash": value_hash(extractor),
            "weights_sha256": self.weights_sha256,
            "made_with": f"timm {_timm().__version__}, torch {torch.__version__}, {self.device.type}",
        }

    @torch.inference_mode()
    def __call__(self, pictures: Tensor) -> Tensor:
        """Return features float32 [B, grid * grid, dim] on the CPU for pictures uint8 [B, edge, edge, 3]."""
        with torch.autocast(self.device.type, self.precision, enabled=self.precision != torch.float32):
            maps = self.maps(pictures).float()
        rows = maps.flatten(2).transpose(1, 2).contiguous().cpu()
        return (rows - self.scale[0]) * self.scale[1] if self.scale else rows

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
        return functional.adaptive_avg_pool2d(maps, grid)

    def _stage(self, inputs: Tensor) -> Tensor:
        """Return feature maps [B, C, H, W] of the chosen stage."""
        if self.spec.out_index is not None:
            options = {"indices": [self.spec.out_index], "intermediates_only": True, "stop_early": True}
            maps: Tensor = self.model.forward_intermediates(inputs, output_fmt="NCHW", **options)[0]
            return maps
        found = self.model.forward_features(inputs)
        return as_maps(found, model=self.model, backbone=self.spec.backbone)


def weights_file(spec: GridFeatures, *, inputs: Path, trained: Path | None) -> Path | None:
    """Return the file with a backbone's weights, or None where timm gives them.

    Raises:
        ConfigError: weights 'boxes' without the file that pretraining makes.
    """
    if spec.weights in ("pretrained", "random"):
        return None
    if spec.weights != "boxes":
        return inputs / spec.weights
    if trained is None:
        raise ConfigError("weights 'boxes': say with --trained which file `recap features pretrain` made")
    return trained


def _timm() -> Any:
    ensure_torchvision()
    import timm

    return timm


def _create(spec: GridFeatures) -> Any:
    """Create the model, on the CPU, with pretrained or seeded random weights."""
    timm = _timm()
    _check_name(spec.backbone)
    options: dict[str, Any] = {}
    if spec.activation:
        options["act_layer"] = _ACTIVATIONS[spec.activation]
    config = timm.models.get_pretrained_cfg(spec.backbone, allow_unregistered=True)
    if config is not None and config.fixed_input_size:
        options["img_size"] = spec.image_size
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived_seed(spec.seed, "backbone", spec.backbone))
        try:
            return timm.create_model(spec.backbone, pretrained=spec.weights == "pretrained", **options)
        except TypeError as error:
            raise ConfigError(f"{spec.backbone}: cannot be built with {', '.join(options)} ({error})") from error
        except Exception as error:
            if spec.weights != "pretrained":
                raise ConfigError(f"{spec.backbone}: cannot be built: {_one_line(error)}") from error
            raise FeatureError(
                f"{spec.backbone}: its pretrained weights cannot be fetched ({_one_line(error)}); without a network, "
                "set `weights` to a safetensors file in the `inputs` folder"
            ) from error


def _check_name(backbone: str) -> None:
    """Refuse a name, or a tag of pretrained weights after its dot, that timm has not; timm has more than a thousand."""
    timm = _timm()
    name, dot, _ = backbone.partition(".")
    known, wanted = timm.list_models(), name
    if name in known:
        if not dot:
            return
        known, wanted = [name, *timm.list_pretrained(f"{name}.*")], backbone
    if wanted not in known:
        close = difflib.get_close_matches(wanted, known, n=5, cutoff=0.3) or known[:5]
        raise ConfigError(f"backbone: timm has no {backbone!r}; {nearest(wanted, close)}")


def _check_stage(model: Any, spec: GridFeatures) -> None:
    if not hasattr(model, "forward_intermediates"):
        raise ConfigError(f"{spec.backbone}: has no intermediate maps; leave `out_index` out")
    if spec.out_index not in range(len(model.feature_info)):
        last = len(model.feature_info) - 1
        raise ConfigError(
            f"out_index: {spec.backbone} has the stages 0 to {last}, not {spec.out_index}; choose one of them"
        )


def _one_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:160]


@contextmanager
def _one_thread_an_operator() -> Iterator[None]:
    """Leave the parallel work to our own threads, also in the threads that start inside."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
