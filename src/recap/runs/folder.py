"""The folder of a trained run: written, and opened again
with the vocabulary and features that it was trained with."""

from __future__ import annotations

import hashlib
import math
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor

from recap.core.checksums import check, record
from recap.core.documents import write_json
from recap.core.errors import ConfigError, FeatureError, TrainingError, first_line
from recap.core.files import atomic_path, csv_text, write_text
from recap.core.hashing import commit, value_hash
from recap.data.vocabulary import AnyVocabulary
from recap.features.store import FeatureStore
from recap.models.base import Captioner, build_model
from recap.models.images import InputSpec
from recap.runs.inputs import joint_extractor_hash
from recap.settings import Execution, Model, ModelConfig
from recap.settings.params import read_mapping, validate

CONFIG, WEIGHTS = "config.yaml", "model.safetensors"
# Keys of an execution that say nothing of how one training was computed.
NOT_OF_A_TRAINING = {"device", "nodes", "extraction_parts", "trainings_per_gpu"}
# the only key: safetensors writes several in an order that changes from run to run
DIGEST = "tensors_sha256"


@dataclass
class Counters:
    """Progress of a training; all of it is in the checkpoint."""

    epoch: int = 0
    batch: int = 0  # batches of this epoch that are done
    step: int = 0
    lr_drops: int = 0  # plateaus met
    epochs_since_best: int = 0  # epochs with a validation
    best: float = -math.inf
    best_epoch: int = -1  # 0: the weights that the stage began with
    seconds: float = 0.0
    sums: dict[str, float] = field(default_factory=dict)  # of this epoch's logged numbers
    history: list[dict[str, float | None]] = field(default_factory=list)


def _digits(value: float | None) -> Any:
    """Return a float with enough digits to plot and compare; integers stay as they are."""
    return f"{value:.8g}" if isinstance(value, float) else value


def write_run(
    out: Path,
    *,
    made_from: dict[str, Any],
    execution: Execution,
    counters: Counters,
    weights: Path,
    model: torch.nn.Module,
    device: torch.device,
) -> None:
    """Write `config.yaml`, `history.csv`, `model.safetensors` and, last, `training.json`."""
    read_weights(weights)
    spec = made_from["spec"]
    write_text(out / CONFIG, yaml.safe_dump(made_from, sort_keys=True))
    # an epoch without validation, or before the first step, has fewer
    columns = max(counters.history, key=len)
    rows: list[Iterable[Any]] = [columns]
    for line in counters.history:
        rows.append([_digits(line.get(column)) for column in columns])
    write_text(out / "history.csv", csv_text(rows))
    with atomic_path(out / WEIGHTS) as temporary:
        shutil.copyfile(weights, temporary)
    names = ("dataset", "subset", "features", "model", "recipe", "seed")
    write_json(
        out / "training.json",
        {
            **{name: spec[name] for name in names},
            "stage": made_from["stage"],
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            "epochs": counters.epoch,
            "steps": counters.step,
            "best_epoch": counters.best_epoch,
            "best_val_cider_d": counters.best,
            "seconds": round(counters.seconds, 1),
            "device": str(device),
            **execution.model_dump(mode="json", exclude=NOT_OF_A_TRAINING),
            "feature_hash": made_from["feature_hash"],
            "config_hash": value_hash(spec),
            "git_commit": commit(),
            "torch": torch.__version__,
        },
    )
    record(*(out / name for name in (CONFIG, "history.csv", "training.json")))


def plain_weights(model: torch.nn.Module) -> dict[str, Tensor]:
    """The model's tensors as safetensors wants them: contiguous, on the CPU."""
    return {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}


def save_weights(
    path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None
) -> None:
    """Write contiguous tensors, by default with their digest, atomically."""
    from safetensors.torch import save_file

    with atomic_path(path) as temporary:
        save_file(dict(tensors), temporary, metadata=metadata or {DIGEST: _digest(tensors)})


def _digest(tensors: Mapping[str, Tensor]) -> str:
    """Return the sha256 over names, types, shapes and bytes of tensors, by name."""
    digest = hashlib.sha256()
    for name, value in sorted(tensors.items()):
        digest.update(f"{name}\0{value.dtype}\0{tuple(value.shape)}\0".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def read_safetensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the tensors of a file by name, and its metadata."""
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
        return tensors, file.metadata() or {}


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read a file of tensors and compare it with its digest.

    A file that others wrote has none and passes.
    """
    from safetensors import SafetensorError

    try:
        tensors, metadata = read_safetensors(path)
    except (SafetensorError, OSError, ValueError) as error:
        raise TrainingError(
            f"{path}: is damaged or not there ({first_line(error)}); make it again"
        ) from error
    if DIGEST in metadata and metadata[DIGEST] != _digest(tensors):
        raise TrainingError(f"{path}: is damaged (its tensors are others); make it again")
    return tensors


def load_weights(model: Captioner, path: Path) -> None:
    """Load a model's tensors; every name, type and shape must fit, and every number be finite."""
    weights = read_weights(path)
    for name, own in model.state_dict().items():
        value = weights.get(name, own)
        if value.dtype != own.dtype or not value.isfinite().all():
            raise TrainingError(
                f"{path}: {name!r} is {value.dtype}, not {own.dtype}, or holds NaN or infinite "
                "numbers; train it again"
            )
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise TrainingError(
            f"{path}: these weights do not fit the model ({misfit(error)}); train it again"
        ) from error


def misfit(error: RuntimeError) -> str:
    """Return what `load_state_dict` says of the first tensors that do not fit.

    The line before names the model.
    """
    return str(error).splitlines()[:2][-1].strip(" \t.")


@dataclass(frozen=True)
class _Spec:
    model_settings: Model


@dataclass(frozen=True)
class _MadeFrom:
    """What is read of a run's `config.yaml`.

    An imported release was trained with other features.
    """

    spec: _Spec
    vocabulary_hash: str | None = None
    features_made_by: str | None = None


def _made_from(run: Path) -> _MadeFrom:
    check(run / CONFIG)
    return validate(_MadeFrom, read_mapping(run / CONFIG), str(run / CONFIG))


def run_model_config(run: Path) -> ModelConfig:
    """Return the settings of a run's model."""
    return _made_from(run).spec.model_settings


def load_model(run: Path, inputs: InputSpec) -> Captioner:
    """Return the trained model of a run folder."""
    model = build_model(run_model_config(run), inputs)
    load_weights(model, run / WEIGHTS)
    return model


def check_inputs(
    run: Path,
    vocabulary: Path,
    loaded: AnyVocabulary,
    stores: Sequence[FeatureStore],
    *,
    other_pictures: bool = False,
) -> None:
    """Refuse a vocabulary and features that a run was not trained with."""
    # Of features that others made, a store records the files alone,
    # and those of `other_pictures` lie in other files.
    made_from = _made_from(run)
    maker = joint_extractor_hash(stores) if stores else None
    of_others = [
        store.attributes["weights_sha256"] == "unknown"
        or "boxes_hash" in store.attributes["extractor"]
        for store in stores
    ]
    if other_pictures and any(of_others):
        maker = None
    for kind, option, file, own, expected in (
        (ConfigError, "vocabulary", str(vocabulary), loaded.hash, made_from.vocabulary_hash),
        (
            FeatureError,
            "features",
            ", ".join(str(store.path) for store in stores),
            maker,
            made_from.features_made_by,
        ),
    ):
        if None not in (own, expected) and own != expected:
            what = f"not the {option} that {run} was trained with (hash {own}, expected {expected})"
            raise kind(f"{file}: {what}; give that with --{option} FILE")
