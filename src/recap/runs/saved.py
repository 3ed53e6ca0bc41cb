"""From a run folder back to a model and what it reads; tensors alone are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from recap.core.checksums import check
from recap.core.errors import ConfigError, FeatureError, TrainingError, first_line
from recap.data.vocabulary import AnyVocabulary, load_vocabulary
from recap.features.store import FeatureStore
from recap.models.base import Captioner
from recap.models.ensemble import Ensemble
from recap.models.images import InputSpec
from recap.models.registry import build_model
from recap.runs.inputs import FeatureSources, joint_maker
from recap.runs.weights import read_weights
from recap.settings import Model, ModelConfig
from recap.settings.params import read_mapping, validate

CONFIG = "config.yaml"


def open_runs(
    runs: Sequence[Path],
    *,
    vocabulary: Path,
    features: Sequence[Path],
    device: torch.device | str = "cpu",
    other_pictures: bool = False,
) -> tuple[Captioner, FeatureSources, AnyVocabulary]:
    """Return a trained model, or the ensemble of several, and what it reads: what each run was trained with."""
    words, sources = load_vocabulary(vocabulary), FeatureSources(features)
    for run in runs:
        check_inputs(run, vocabulary, words, sources.stores, other_pictures=other_pictures)
    inputs = sources.input_spec(words)
    models = [load_model(run, inputs) for run in runs]
    sources.choose(models, inputs)
    model = models[0] if len(models) == 1 else Ensemble(models)
    return model.to(device).eval(), sources, words


def check_inputs(
    run: Path,
    vocabulary: Path,
    words: AnyVocabulary,
    stores: Sequence[FeatureStore],
    *,
    other_pictures: bool = False,
) -> None:
    """Refuse words and features that a run was not trained with; what an older run did not record is not compared.

    Of features that others made, a store records the files alone, and those of `other_pictures` lie in other files.
    """
    made_from = _made_from(run)
    expected = made_from.get("vocabulary_hash")
    if expected not in (None, words.hash):
        raise ConfigError(
            f"{vocabulary}: not the vocabulary that {run} was trained with (hash {words.hash}, expected {expected}); "
            "give that one with --vocabulary FILE"
        )
    expected = made_from.get("features_made_by")
    if not stores or expected is None or (other_pictures and any(map(_made_from_files, stores))):
        return
    maker = joint_maker(stores)
    if maker != expected:
        raise FeatureError(
            f"{', '.join(str(store.path) for store in stores)}: not the features that {run} was trained with (made by "
            f"{maker}, expected {expected}); give those with --features FILE"
        )


def _made_from_files(store: FeatureStore) -> bool:
    """Whether files that others made, or boxes in them, may be what a store was made from."""
    return store.attributes["weights_sha256"] == "unknown" or "boxes_hash" in store.attributes["extractor"]


def load_weights(model: Captioner, path: Path) -> None:
    """Load a model's tensors; every name, type and shape must fit, and every number be finite."""
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
    """Return the trained model of a run folder."""
    captioner = build_model(run_model_config(run), inputs)
    load_weights(captioner, run / "model.safetensors")
    return captioner


def run_model_config(run: Path) -> ModelConfig:
    """Return the settings of a run's model."""
    spec = _made_from(run).get("spec")
    config = spec.get("model_settings") if isinstance(spec, dict) else None
    if not isinstance(config, dict):
        raise TrainingError(
            f"{run / CONFIG}: holds no spec with model_settings; delete the folder and train this run again"
        )
    validated: ModelConfig = validate(Model, config, str(run / CONFIG))
    return validated


def _made_from(run: Path) -> Mapping[str, Any]:
    """Return what a run was made from, as it recorded it."""
    check(run / CONFIG)
    return read_mapping(run / CONFIG)
