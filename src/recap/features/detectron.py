"""Detectors of detectron2: built from its own configurations, with weights that hold tensors alone.

detectron2 is no dependency: it has no wheels. docs/detectron2.md says how it is built.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from recap.core.errors import ConfigError, FeatureError, first_line
from recap.core.hashing import sha256_file
from recap.core.seeding import derived_seed
from recap.features.weights import weights_hash


def configured(name: str, changes: Mapping[str, Any]) -> Any:
    """Return a configuration of detectron2's model zoo with changes, for random weights.

    Raises:
        ConfigError: detectron2 is not installed; the sentence says how to get it.
    """
    try:
        from detectron2 import model_zoo
    except ImportError as error:
        raise ConfigError(
            f"regions and segments need detectron2, which cannot be imported ({error}): build it as docs/detectron2.md "
            "says, or run this rule with `snakemake --sdm conda`, or import features that others extracted"
        ) from error
    config = model_zoo.get_config(name)
    config.merge_from_list([item for pair in changes.items() for item in pair])
    config.MODEL.WEIGHTS = ""
    return config


def built(config: Any, *, seed: int, device: torch.device) -> Any:
    """Build a detector with seeded random weights, in evaluation mode."""
    from detectron2.modeling import build_model

    config.MODEL.DEVICE = device.type
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived_seed(seed, "detector"))
        return build_model(config).eval()


def load(model: torch.nn.Module, path: Path | None, *, key_map: Mapping[str, str]) -> str:
    """Load weights, strictly, and return their hash; None leaves the random ones.

    Args:
        model: the detector.
        path: .safetensors, .pth or .pkl.
        key_map: prefix of a name in the file -> prefix of the name in ``model``.

    Raises:
        FeatureError: the file is missing, holds code or anything but tensors, or does not fit.
    """
    if path is None:
        _tame(model)
        return weights_hash(model)
    if not path.is_file():
        raise FeatureError(f"{path}: no such weights file; put it there, or correct `weights` of the features")
    given = {_mapped(name, key_map): tensor for name, tensor in _tensors(path).items()}
    expected = model.state_dict()
    # Pixel means and anchors are made from the configuration; some files carry them, some do not.
    made = {name for name in expected if name.startswith("pixel_") or ".anchor_generator." in name}
    for name in expected:
        if name not in given and name not in made:
            raise FeatureError(f"{path}: lacks {name!r} of the detector; name it in `key_map`, or correct `detector`")
        if name in given and given[name].shape != expected[name].shape:
            raise FeatureError(
                f"{path}: {name!r} is {list(given[name].shape)} instead of {list(expected[name].shape)}; correct "
                "`classes`, `attributes` or `detector`"
            )
    unknown = sorted(set(given) - set(expected))
    if unknown:
        raise FeatureError(f"{path}: has {unknown[0]!r}, which the detector lacks; name it in `key_map`")
    model.load_state_dict(given, strict=False)
    return sha256_file(path)


def _tame(model: torch.nn.Module) -> None:
    """Scale random residual branches down: their norms are frozen and normalise nothing, so that values would grow with
    every block until no box is left inside the picture."""
    for name, value in model.named_buffers():
        if name.endswith("conv3.norm.weight"):
            value.mul_(0.1)


def _mapped(name: str, key_map: Mapping[str, str]) -> str:
    for old, new in key_map.items():
        if name.startswith(old):
            return new + name.removeprefix(old)
    return name


def _tensors(path: Path) -> dict[str, torch.Tensor]:
    """Return the tensors of a file, of which no code is run."""
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        if path.suffix == ".pkl":
            found = _ArraysOnly(io.BytesIO(path.read_bytes()), encoding="latin1").load()
        else:
            found = torch.load(path, map_location="cpu", weights_only=True)
        found = found.get("model", found)
        return {name: torch.as_tensor(np.asarray(value)) for name, value in found.items()}
    except Exception as error:  # whatever the damaged bytes happen to mean
        reason = first_line(error)[:120]
        raise FeatureError(f"{path}: truncated, or more than tensors by name ({reason}); fetch it again") from error


class _ArraysOnly(pickle.Unpickler):
    """Loads pickles of numpy arrays by name, as detectron2's model zoo has them, and refuses everything else."""

    _ALLOWED = {
        ("numpy", "ndarray"),
        ("numpy", "dtype"),
        ("numpy.core.multiarray", "_reconstruct"),
        ("numpy.core.multiarray", "scalar"),
        ("numpy._core.multiarray", "_reconstruct"),
        ("numpy._core.multiarray", "scalar"),
        ("_codecs", "encode"),
        ("collections", "OrderedDict"),
    }

    def find_class(self, module: str, name: str) -> Any:
        """Return a permitted constructor."""
        if (module, name) not in self._ALLOWED:
            raise pickle.UnpicklingError(f"it would run {module}.{name}")
        return super().find_class(module, name)
