"""From a run folder back to a model; tensors alone are read."""

from __future__ import annotations

from pathlib import Path

from recap.core.checksums import check
from recap.core.errors import TrainingError, first_line
from recap.models.base import Captioner
from recap.models.images import InputSpec
from recap.models.registry import build_model
from recap.runs.weights import read_weights
from recap.settings import Model, ModelConfig
from recap.settings.params import read_mapping, validate


def load_weights(model: Captioner, path: Path) -> None:
    """Load a model's tensors; every name, type and shape must fit, and every number be finite.

    Raises:
        TrainingError: the file is missing, damaged or of another model.
    """
    weights = read_weights(path)
    for name, own in model.state_dict().items():
        value = weights.get(name, own)
        if value.dtype != own.dtype:
            raise TrainingError(f"{path}: {name!r} is {value.dtype}, not {own.dtype}; train it again")
        if not bool(value.isfinite().all()):
            raise TrainingError(f"{path}: {name!r} holds NaN or infinite numbers; train it again")
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        first = first_line(error)
        raise TrainingError(f"{path}: these weights do not fit the model ({first}); train it again") from error


def load_model(run: Path, inputs: InputSpec) -> Captioner:
    """Return the trained model of a run folder.

    Raises:
        RecapError: config or weights are missing, broken or do not fit.
    """
    captioner = build_model(run_model_config(run), inputs)
    load_weights(captioner, run / "model.safetensors")
    return captioner


def run_model_config(run: Path) -> ModelConfig:
    """Return the settings of a run's model.

    Raises:
        RecapError: `config.yaml` is missing, damaged, or holds no settings of a model.
    """
    path = run / "config.yaml"
    check(path)
    spec = read_mapping(path).get("spec")
    config = spec.get("model_settings") if isinstance(spec, dict) else None
    if not isinstance(config, dict):
        raise TrainingError(f"{path}: holds no spec with model_settings; delete the folder and train this run again")
    validated: ModelConfig = validate(Model, config, str(path))
    return validated
