"""From a run folder back to a model; tensors alone are read."""

from __future__ import annotations

from pathlib import Path

from safetensors.torch import load_file

from recap.core.errors import TrainingError
from recap.core.params import read_mapping
from recap.data.vocabulary import AnyVocabulary
from recap.models.base import Captioner
from recap.models.registry import build_model


def load_weights(model: Captioner, path: Path) -> None:
    """Load a model's tensors; every name and shape must fit.

    Raises:
        TrainingError: the file is missing, broken or of another model.
    """
    if not path.exists():
        raise TrainingError(f"{path}: no such weights; run the stage that makes them first")
    try:
        model.load_state_dict(load_file(path))
    except Exception as error:
        first = str(error).strip().splitlines()[0]
        raise TrainingError(f"{path}: these weights do not fit the model ({first}); train it again") from error


def load_model(run: Path, *, feature_size: int, words: AnyVocabulary) -> Captioner:
    """Return the trained model of a run folder.

    Raises:
        RecapError: config or weights are missing, broken or do not fit.
    """
    config = read_mapping(run / "config.yaml")["spec"]["model_config"]
    captioner = build_model(config, feature_size=feature_size, vocabulary_size=len(words))
    load_weights(captioner, run / "model.safetensors")
    return captioner
