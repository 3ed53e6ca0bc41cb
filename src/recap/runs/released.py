"""Released checkpoints: from the files of the authors to the folder of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor

from recap.core.checksums import record
from recap.core.documents import write_json
from recap.core.errors import ConfigError, MissingSettings, RecapError, first_line
from recap.core.files import write_text
from recap.core.hashing import sha256_file
from recap.core.log import log
from recap.features.tensors import read_tensors
from recap.models.images import InputSpec
from recap.models.registry import build_model
from recap.models.released import Release
from recap.runs.released_options import has_words, read_options
from recap.runs.released_words import in_our_order, read_vocabulary
from recap.runs.weights import save_weights
from recap.settings import Model, ModelConfig
from recap.settings.models import RELEASED
from recap.settings.params import validate
from recap.settings.recipes import DecodingSettings

CONFIG, WEIGHTS, VOCABULARY, REPORT = "config.yaml", "model.safetensors", "vocabulary.json", "import.json"
RELEASED_STAGE = "released"  # takes the place of a training stage


def released_tensors(kind: str, file: Path) -> tuple[Release, dict[str, Tensor], dict[str, str]]:
    """Return what a paper says of its releases, the tensors of a file by our names, and the others with the reason.

    The file is a state dict, or a mapping that has one as `state_dict`.
    """
    release = RELEASED.get(kind)
    if not isinstance(release, Release):
        raise ConfigError(f"{kind}: {release}")
    state = _state_dict(file)
    with _named(file, kind):
        return release, release.renamed(state), release.left_out(state)


def import_checkpoint(
    *,
    kind: str,
    file: Path,
    out: Path,
    config: Path | None = None,
    vocabulary: Path | None = None,
    changes: Mapping[str, Any] | None = None,
    dataset: str = "coco",
) -> None:
    """Write a released checkpoint as the folder of a run: settings, weights, vocabulary and a report of the import.

    Args:
        kind, file: as of `released_tensors`.
        out: the folder.
        config: the release's own configuration: `config.yml`, or `infos` as a pickle.
        vocabulary: the release's words; None: those in `config`.
        changes: keys of the model's settings that no file of the release has.
        dataset: data set that the run is said to be trained on.
    """
    release, tensors, left_out = released_tensors(kind, file)
    options = read_options(config) if config else {}
    words = vocabulary or (config if config and has_words(config) else None)
    if words is None:
        raise ConfigError(f"{file}: a run needs the release's words; give them with --vocabulary FILE")
    with _named(file, kind):
        said = {**release.settings(tensors, options), **(changes or {})}
        features = release.feature_size(tensors)
    settings: ModelConfig = validate(Model, said, f"{config or file}: model")
    search: DecodingSettings = validate(DecodingSettings, release.search(options), f"{config or file}: decoding")
    own, rows = read_vocabulary(words, release, max_length=search.max_length)
    ordered = in_our_order(tensors, release, rows, words)
    # Clones, because released tables may be tied, and safetensors refuses tensors that share memory.
    weights = {name: value.float().contiguous().clone() for name, value in ordered.items()}
    _check_fit(weights, settings, InputSpec({"main": features}, len(own), own), file)
    origin = {"file": file.name, "sha256": sha256_file(file), "kind": kind}
    names = {"dataset": dataset, "subset": "full", "features": RELEASED_STAGE, "model": kind, "recipe": RELEASED_STAGE}
    made_from = {
        "spec": {**names, "seed": 0, "model_settings": settings.model_dump(mode="json")},
        "stage": RELEASED_STAGE,
        "released": origin,
        "feature_size": features,
        "decoding": search.model_dump(mode="json"),
        "vocabulary_hash": own.hash,
    }
    own.save(out / VOCABULARY)
    save_weights(out / WEIGHTS, weights)
    taken = {name: list(value.shape) for name, value in sorted(weights.items())}
    parameters = sum(map(Tensor.numel, weights.values()))
    write_json(out / REPORT, {**origin, "taken": taken, "left_out": left_out, "parameters": parameters})
    write_text(out / CONFIG, yaml.safe_dump(made_from, sort_keys=True))
    record(*(out / name for name in (CONFIG, VOCABULARY, REPORT)))
    reasons = sorted(set(left_out.values()))
    dropped = f"; {len(left_out)} left out ({'; '.join(reasons)})" if left_out else ""
    log.info(f"{out}: {len(weights)} tensors, {parameters / 1e6:.1f} million numbers, {len(own):,} ids{dropped}")


def _check_fit(weights: Mapping[str, Tensor], settings: ModelConfig, inputs: InputSpec, file: Path) -> None:
    """Refuse a tensor that is missing, is not the model's, or has another shape."""
    with torch.device("meta"):
        places = build_model(settings, inputs).state_dict()
    for name in sorted({*places, *weights}):
        found, place = weights.get(name), places.get(name)
        if found is None or place is None:
            where = "is missing in the checkpoint" if found is None else "has no place in the model"
            raise ConfigError(f"{file}: {name!r} {where} of these settings; give the release's own --config, or --set")
        if found.shape != place.shape:
            raise ConfigError(
                f"{file}: {name!r} is {[*found.shape]}, and the model of these settings has {[*place.shape]}; give the "
                "release's own --config, or --set"
            )


@contextmanager
def _named(file: Path, kind: str) -> Iterator[None]:
    """Put the name of the checkpoint before what is wrong with its tensors."""
    try:
        yield
    except RecapError as error:
        raise ConfigError(f"{file}: {error}") from error
    except (LookupError, ValueError, RuntimeError, StopIteration, TypeError) as error:  # missing, or of another shape
        raise ConfigError(f"{file}: is no released checkpoint of kind {kind!r} ({first_line(error)})") from error


def _state_dict(file: Path) -> dict[str, Tensor]:
    """Return the tensors of a file by their released names, without the prefix of data-parallel training."""
    if not file.is_file():
        raise MissingSettings(f"{file}: no such checkpoint")
    found: Any = read_tensors(file, ConfigError)
    if isinstance(found, Mapping) and isinstance(found.get("state_dict"), Mapping):
        found = found["state_dict"]
    if not isinstance(found, Mapping) or not found:
        raise ConfigError(f"{file}: holds no state dict; give the file with the model's tensors")
    for name, value in found.items():
        if not (isinstance(name, str) and isinstance(value, Tensor)):
            raise ConfigError(f"{file}: {name!r} is no tensor; give the file with the model's tensors alone")
        if not bool(value.isfinite().all()):
            raise ConfigError(f"{file}: {name!r} holds NaN or infinite numbers; fetch the file again")
    parallel = all(name.startswith("module.") for name in found)
    return {name.removeprefix("module.") if parallel else name: value for name, value in found.items()}
