"""Models of timm by name, with pretrained or seeded random weights (the only file that knows timm)."""

from __future__ import annotations

import difflib
import textwrap
from typing import Any

from torch import nn

from recap.core.errors import ConfigError, FeatureError, first_line
from recap.core.hashing import derived_seed
from recap.features.torchvision_ops import ensure_torchvision
from recap.settings.features import CropFeatures, GridFeatures

_ACTIVATIONS = {"relu": nn.ReLU, "relu6": nn.ReLU6, "gelu": nn.GELU, "silu": nn.SiLU}
_HUB_FILES = ("model.safetensors", "pytorch_model.bin")  # of which timm takes one
_HUB_SECONDS = 10.0


def timm_library() -> Any:
    """Return the library, whatever torchvision is installed."""
    ensure_torchvision()
    import timm

    return timm


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
    import torch

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
