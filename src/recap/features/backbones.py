"""Models of timm by name, with pretrained, given or seeded random weights (the only file that knows timm)."""

from __future__ import annotations

import difflib
import importlib.util
import textwrap
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from recap.core.device import half_precision
from recap.core.errors import ConfigError, FeatureError, first_line
from recap.core.hashing import derived_seed, sha256_file
from recap.features.pictures import resampling
from recap.features.tensors import load_strictly, weights_hash
from recap.settings.features import CropFeatures, GridFeatures

_ACTIVATIONS = {"relu": nn.ReLU, "relu6": nn.ReLU6, "gelu": nn.GELU, "silu": nn.SiLU}
_HUB_FILES = ("model.safetensors", "pytorch_model.bin")  # of which timm takes one
_HUB_SECONDS = 10.0
_definitions: list[Any] = []  # a Library takes its definitions back when it is collected


class TimmEncoder:
    """A timm model in evaluation mode on a device, and pictures as it reads them."""

    def __init__(self, spec: GridFeatures | CropFeatures, *, weights: Path | None, device: torch.device) -> None:
        """Build the model and load its weights; without a file they are pretrained or random, as the spec says."""
        self.device, self.precision = device, half_precision(device)
        model = create(spec)
        if weights is not None:
            load_strictly(model, weights, backbone=spec.backbone)
        self.weights_sha256 = weights_hash(model) if weights is None else sha256_file(weights)
        self.model: Any = model.eval().to(device).to(memory_format=torch.channels_last)
        data = timm_library().data.resolve_model_data_config(model)
        self.mean, self.sd, self.interpolation = list(data["mean"]), list(data["std"]), str(data["interpolation"])
        self.resample = resampling(self.interpolation)
        self.made_with = f"timm {timm_library().__version__}, torch {torch.__version__}, {device.type}"

    def normalized(self, pictures: Tensor) -> Tensor:
        """Return pictures uint8 [B, edge, edge, 3] as the model reads them, float32 [B, 3, edge, edge]."""
        mean, sd = (torch.tensor(values, device=self.device).view(1, 3, 1, 1) for values in (self.mean, self.sd))
        # A permuted [B, H, W, C] tensor is channels_last already.
        return (pictures.to(self.device).permute(0, 3, 1, 2).float() / 255 - mean) / sd

    def mixed(self) -> torch.autocast:
        """Return the context of half precision, where the device has it."""
        return torch.autocast(self.device.type, self.precision, enabled=self.precision != torch.float32)


def timm_library() -> Any:
    """Return the library, whatever torchvision is installed."""
    ensure_torchvision()
    import timm

    return timm


@cache
def ensure_torchvision() -> str:
    """Prepare the import of torchvision before that of timm; return ``native``, ``schemas-only`` or ``absent``.

    The registry's torchvision is a CUDA build; beside a CPU wheel of torch its library cannot be loaded, and its import
    then stops at two operators without a schema. Nothing here needs those operators, so a schema is enough.
    """
    spec = importlib.util.find_spec("torchvision")
    if spec is None or not spec.submodule_search_locations:
        return "absent"
    # Ordinary machines first: schemas defined before the real library is loaded would break it.
    try:
        torch.ops.load_library(str(Path(spec.submodule_search_locations[0]) / "_C.so"))
    except OSError:
        _define_schemas()
        return "schemas-only"
    return "native"


def _define_schemas() -> None:
    library = torch.library.Library("torchvision", "FRAGMENT")
    for operator in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, operator):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _definitions.append(library)


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


def _ask_hub(repository: str | None) -> None:
    """Ask the HuggingFace hub once for weights that are not in its cache here; its library retries for 90 seconds."""
    from huggingface_hub import HfApi, try_to_load_from_cache

    if repository is None:
        return
    name, _, revision = repository.partition("@")
    files = (try_to_load_from_cache(name, file, revision=revision or None) for file in _HUB_FILES)
    if not any(isinstance(file, str) for file in files):
        HfApi().model_info(name, revision=revision or None, timeout=_HUB_SECONDS)


def check_name(backbone: str) -> None:
    """Refuse a name, or a tag of pretrained weights after its dot, that timm has not; timm has more than a thousand."""
    timm = timm_library()
    name, dot, _ = backbone.partition(".")
    known, wanted = timm.list_models(), name
    if name in known:
        if not dot:
            return
        known, wanted = [name, *timm.list_pretrained(f"{name}.*")], backbone
    if wanted not in known:
        close = difflib.get_close_matches(wanted, known, n=5, cutoff=0.0)
        likely = difflib.get_close_matches(wanted, close, n=1)
        hint = f"did you mean {likely[0]!r}?" if likely else f"the nearest of its {len(known)} are {', '.join(close)}"
        raise ConfigError(f"backbone: timm has no {backbone!r}; {hint}")


def check_stage(model: Any, spec: GridFeatures) -> None:
    """Refuse a stage that the model has not."""
    if not hasattr(model, "forward_intermediates"):
        raise ConfigError(f"{spec.backbone}: has no intermediate maps; leave `out_index` out")
    if spec.out_index not in range(len(model.feature_info)):
        last = len(model.feature_info) - 1
        raise ConfigError(
            f"out_index: {spec.backbone} has the stages 0 to {last}, not {spec.out_index}; choose one of them"
        )


def _one_line(error: Exception) -> str:
    return textwrap.shorten(first_line(error), 160, placeholder=" ...")
