"""Released checkpoints: from a file of the authors' to safetensors with our names."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from recap.core.errors import ConfigError, MissingSettings, RecapError, first_line
from recap.core.log import log
from recap.runs.weights import read_weights, save_weights
from recap.settings.models import RELEASED

_UNREADABLE = (pickle.UnpicklingError, RuntimeError, OSError, EOFError, ValueError, TypeError, LookupError)


def import_checkpoint(*, kind: str, file: Path, out: Path) -> None:
    """Write the tensors of a released checkpoint under the names of our model of its kind.

    Tensors alone are read: a file that could run code when it is loaded is refused.

    Args:
        kind: of the model; its paper has registered names with `RELEASED`.
        file: safetensors, or what torch.save wrote: a state dict, or a mapping that has one as `state_dict`.
        out: the safetensors.

    Raises:
        ConfigError: the kind has no released checkpoints, or the file is missing, damaged or of another model.
    """
    rename = RELEASED.get(kind)
    state = _state_dict(file)
    try:
        renamed = rename(state)
    except RecapError as error:
        raise ConfigError(f"{file}: {error}") from error
    except (LookupError, ValueError, RuntimeError) as error:  # a tensor is missing, or has another shape
        raise ConfigError(f"{file}: is no released checkpoint of kind {kind!r} ({first_line(error)})") from error
    # Clones, because released tables may be tied, and safetensors refuses tensors that share memory.
    save_weights(out, {name: value.contiguous().clone() for name, value in renamed.items()})
    log.info(f"{out}: {len(renamed)} tensors, {sum(map(Tensor.numel, renamed.values())) / 1e6:.1f} million numbers")


def _state_dict(file: Path) -> dict[str, Tensor]:
    """Return the tensors of a file by their released names, without the prefix of data-parallel training."""
    if not file.is_file():
        raise MissingSettings(f"{file}: no such checkpoint")
    found: Any = read_weights(file) if file.suffix == ".safetensors" else _unpickled(file)
    if isinstance(found, Mapping) and isinstance(found.get("state_dict"), Mapping):
        found = found["state_dict"]
    if not isinstance(found, Mapping) or not found:
        raise ConfigError(f"{file}: holds no state dict; give the file with the model's tensors")
    for name, value in found.items():
        if not isinstance(value, Tensor):
            raise ConfigError(f"{file}: {name!r} is no tensor; give the file with the model's tensors alone")
        if not bool(value.isfinite().all()):
            raise ConfigError(f"{file}: {name!r} holds NaN or infinite numbers; fetch the file again")
    parallel = all(name.startswith("module.") for name in found)
    return {name.removeprefix("module.") if parallel else name: value for name, value in found.items()}


def _unpickled(file: Path) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of old pickles, which are read or refused all the same
            return torch.load(file, map_location="cpu", weights_only=True)
    except _UNREADABLE as error:
        raise ConfigError(
            f"{file}: is damaged, or holds more than tensors, which could run code; where it can be trusted, save its "
            "state dict alone with torch.save"
        ) from error
