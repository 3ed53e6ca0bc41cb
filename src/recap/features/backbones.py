"""Models of timm by name, with pretrained, random or given weights (no other file knows timm)."""

from __future__ import annotations

import importlib.util
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from PIL.Image import Resampling
from torch import Tensor, nn

from recap.core.device import half_precision
from recap.core.errors import ConfigError, FeatureError, first_line, nearest
from recap.core.files import reading
from recap.core.hashing import derived_seed, sha256_file
from recap.features.extraction import Encoder, describe
from recap.features.tensors import weights_hash
from recap.settings.features import CropFeatures, GridFeatures

_ACTIVATIONS = {"relu": nn.ReLU, "relu6": nn.ReLU6, "gelu": nn.GELU, "silu": nn.SiLU}
_HUB_FILES = ("model.safetensors", "pytorch_model.bin")  # of which timm takes one
_HUB_SECONDS = 10.0
_libraries: list[Any] = []  # a Library takes its definitions back when it is collected


class TimmEncoder(Encoder):
    """A timm model, on a device, with what its release does to a picture."""

    spec: GridFeatures | CropFeatures

    def __init__(
        self, spec: GridFeatures | CropFeatures, *, weights: Path | None, device: torch.device
    ) -> None:
        """Build the model; without a file, its weights are what the settings say."""
        self.spec = spec
        model = create(spec)
        if weights is not None:
            load_strictly(model, weights, backbone=spec.backbone)
        self.weights_sha256 = weights_hash(model) if weights is None else sha256_file(weights)
        self.model: Any = model.eval().to(device).to(memory_format=torch.channels_last)
        self.device = device
        self.precision = half_precision(device)
        data = timm_library().data.resolve_model_data_config(model)
        self.mean = list(data["mean"])
        self.sd = list(data["std"])
        self.interpolation = str(data["interpolation"])
        self.resample = Resampling[self.interpolation.upper()]

    def normalised(self, pictures: Tensor) -> Tensor:
        """Return uint8 [B, edge, edge, 3] as the model reads it, [B, 3, edge, edge]."""
        mean = torch.tensor(self.mean, device=self.device).view(1, 3, 1, 1)
        sd = torch.tensor(self.sd, device=self.device).view(1, 3, 1, 1)
        # A permuted [B, H, W, C] tensor is channels_last already.
        return (pictures.to(self.device).permute(0, 3, 1, 2).float() / 255 - mean) / sd

    def half(self) -> torch.autocast:
        """Return the context of the device's half precision, if it has one."""
        return torch.autocast(
            self.device.type, self.precision, enabled=self.precision != torch.float32
        )

    def described(self, preprocessing: dict[str, str], **more: Any) -> dict[str, str]:
        """Return what a store says of it."""
        seen = {
            **preprocessing,
            "interpolation": self.interpolation,
            "mean": self.mean,
            "std": self.sd,
        }
        made_with = (
            f"timm {timm_library().__version__}, torch {torch.__version__}, {self.device.type}"
        )
        return describe(
            self.spec,
            weights_sha256=self.weights_sha256,
            made_with=made_with,
            preprocessing=seen,
            **more,
        )


def timm_library() -> Any:
    """Return the library, whatever torchvision is installed."""
    ensure_torchvision()
    with _without_compiler():
        import timm

    return timm


@contextmanager
def _without_compiler() -> Iterator[None]:
    """Let torchvision be imported without torch's compiler,
    seconds for one decorator and one question of `roi_align`.

    The question is whether to compile it where sums have to be in one order; nothing here calls it.
    """
    if "torch._dynamo" in sys.modules:
        yield
        return
    compiler = ModuleType("torch._dynamo")
    utils = ModuleType("torch._dynamo.utils")
    compiler.disable = lambda function, *_, **__: function  # type: ignore[attr-defined]
    utils.is_compile_supported = lambda _: False  # type: ignore[attr-defined]
    stand_ins = {each.__name__: each for each in (compiler, utils)}
    sys.modules.update(stand_ins)
    try:
        yield
    finally:
        for name in stand_ins:
            del sys.modules[name]


@cache
def ensure_torchvision() -> None:
    """Make timm importable where torchvision's compiled operators
    do not fit the installed torch; takes milliseconds.

    The registry's torchvision is a CUDA build; beside a CPU wheel of torch its library cannot be
    loaded, and its import then stops at two operators without a schema. Nothing here needs those
    operators, so a schema is enough.
    """
    spec = importlib.util.find_spec("torchvision")
    if spec is None or not spec.submodule_search_locations:
        return
    try:
        # Ordinary machines first: schemas defined before the real library is loaded would break it.
        torch.ops.load_library(str(Path(spec.submodule_search_locations[0]) / "_C.so"))
    except OSError:
        library = torch.library.Library("torchvision", "FRAGMENT")
        for operator in ("nms", "qnms"):
            if not hasattr(torch.ops.torchvision, operator):
                library.define(
                    f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
                )
        _libraries.append(library)


def create(spec: GridFeatures | CropFeatures) -> Any:
    """Create the model, on the CPU, with pretrained or seeded random weights."""
    timm = timm_library()
    check_name(spec.backbone)
    options: dict[str, Any] = {}
    if spec.activation:
        options["act_layer"] = _ACTIVATIONS[spec.activation]
    config = timm.models.get_pretrained_cfg(spec.backbone, allow_unregistered=True)
    if config is not None and config.fixed_input_size:
        options["img_size"] = spec.image_size
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived_seed(spec.seed, "backbone", spec.backbone))
        try:
            if spec.weights == "pretrained" and config is not None:
                repository = config.hf_hub_id
                if spec.revision:
                    repository = f"{repository}@{spec.revision}"
                    options["pretrained_cfg_overlay"] = {"hf_hub_id": repository}
                _ask_hub(repository)
            return timm.create_model(
                spec.backbone, pretrained=spec.weights == "pretrained", **options
            )
        except Exception as error:
            reason = textwrap.shorten(first_line(error), 160, placeholder=" ...")
            if spec.weights != "pretrained" or isinstance(error, TypeError):
                raise ConfigError(f"{spec.backbone}: cannot be built: {reason}") from error
            raise FeatureError(
                f"{spec.backbone}: its pretrained weights cannot be fetched ({reason}); without a "
                "network, set `weights` to a safetensors file in the `inputs` folder"
            ) from error


def _ask_hub(repository: str | None) -> None:
    """Ask the HuggingFace hub once for weights that are not in its cache here.

    Its library retries for 90 seconds.
    """
    from huggingface_hub import HfApi, try_to_load_from_cache

    if repository is None:
        return
    name, _, revision = repository.partition("@")
    files = (try_to_load_from_cache(name, file, revision=revision or None) for file in _HUB_FILES)
    if not any(isinstance(file, str) for file in files):
        HfApi().model_info(name, revision=revision or None, timeout=_HUB_SECONDS)


def check_name(backbone: str) -> None:
    """Refuse a name, or a tag of pretrained weights after its dot, that timm has not.

    Timm has more than a thousand.
    """
    timm = timm_library()
    name = backbone.partition(".")[0]
    names = timm.list_models()
    if name in names:
        names = [name, *timm.list_pretrained(f"{name}.*")]
    if backbone not in names:
        raise ConfigError(f"backbone: timm has no {backbone!r}; {nearest(backbone, names)}")


def load_strictly(model: nn.Module, path: Path, *, backbone: str) -> None:
    """Load a safetensors file whose names and shapes are exactly those of ``model``."""
    from safetensors.torch import load_file

    with reading(
        path,
        FeatureError,
        missing="put it there, or correct `weights` of the features",
        damaged="fetch it again, or convert it: only safetensors are read, for others can run code",
    ):
        tensors = load_file(path)
    try:
        model.load_state_dict(tensors, strict=True)
    except RuntimeError as error:
        # torch lists each name and shape that differs on a line of its own
        problem = textwrap.shorten(" ".join(str(error).splitlines()[1:]), 240, placeholder=" ...")
        raise FeatureError(
            f"{path}: does not fit {backbone!r}: {problem}; correct `weights`, `backbone` or "
            "`image_size`"
        ) from error
