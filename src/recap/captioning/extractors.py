"""What made the features of a run: read from a feature store, or from a folder that was exported."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from recap.core.checksums import check
from recap.core.documents import read_json, write_json
from recap.core.errors import FeatureError, MissingFeatures
from recap.core.files import atomic_path
from recap.features.attributes import CHANNEL_SCALE
from recap.features.store import FeatureStore
from recap.plan import used_inputs
from recap.settings.features import FEATURES as KINDS
from recap.settings.features import FeaturesConfig
from recap.settings.params import validate

FEATURES = "features.json"
_PLACES = "resources"  # folder of outside files, unless a profile says otherwise
_SAFE = ".safetensors"  # other files of weights may run code when they are read, and are not given away
_Name = Annotated[str, Field(pattern=r"^[\w-]+\.safetensors$")]


@dataclass(frozen=True)
class _Described:
    """What a folder that was exported says of one extractor."""

    described: dict[str, Any]
    weights_sha256: str
    weights: _Name | None
    channel_scale: str | None
    sizes: list[tuple[str, int]]  # the main stream first
    rows: int


@dataclass(frozen=True)
class Extractor:
    """What made the features of a store.

    Attributes:
        store: the store that says so.
        settings: of the extractor.
        described: these settings and what the extractor added (preprocessing).
        weights_sha256: hash of its weights.
        weights: their file; None where they come from the hub or from a seed.
        channel_scale: by what its channels are on one scale, in the store's words; None where they are as they were.
        sizes: F of every stream, by name.
        rows: vectors of one image in the main stream.
    """

    store: Path
    settings: FeaturesConfig
    described: Mapping[str, Any]
    weights_sha256: str
    weights: Path | None
    channel_scale: str | None
    sizes: Mapping[str, int]
    rows: int


def extractor_of(store: FeatureStore, given: Path | None) -> Extractor:
    """Return what made a store.

    Args:
        store: the store, which says so.
        given: the weights of the extractor; None: they are looked for where the profile has them.

    Raises:
        RecapError: its kind is not known, or its weights are not there.
    """
    described = json.loads(store.attributes["extractor"])
    settings = _settings(described, store.path)
    first = store.ids[:1].tolist()
    return Extractor(
        store=store.path,
        settings=settings,
        described=described,
        weights_sha256=store.attributes["weights_sha256"],
        weights=_weights(settings, store.path, given),
        channel_scale=store.attributes.get(CHANNEL_SCALE),
        sizes={name: store.shape(name)[1] for name in store.streams},
        rows=int(store.rows(first)[0]),
    )


def _settings(described: Mapping[str, Any], store: Path) -> FeaturesConfig:
    """Return the settings of an extractor from what a store says of it."""
    kind = KINDS.classes().get(str(described.get("kind")))
    if kind is None:
        raise FeatureError(
            f"{store}: made by an extractor of kind {described.get('kind')!r}, which is not known; name the module "
            "that registers it in RECAP_PLUGINS"
        )
    names = {known.serialization_alias or name: name for name, known in kind.model_fields.items()}
    values = {names[key]: value for key, value in described.items() if key in names}
    settings: FeaturesConfig = validate(kind, values, f"{store}: extractor")
    return settings


def _weights(settings: FeaturesConfig, store: Path, given: Path | None) -> Path | None:
    """Return the file of an extractor's weights, or None where it has none; its hash is compared later."""
    if given is not None:
        return given
    named = getattr(settings, "weights", None)
    if settings.trained_on():
        places = [store.with_suffix(".backbone.safetensors")]
    elif named is None or settings.encoder is None or not settings.outside_files():
        return None
    else:
        above = store.absolute().parents  # features/<dataset>, features, results/<profile>, ...
        used = used_inputs.noted(above[2]) if len(above) > 2 else None
        places = [used / named] if used else []
        places += [root / folder / named for root in (Path(), *above) for folder in (_PLACES, "")]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise MissingFeatures(
            f"{places[0]}: the weights that {store} was made with are not there; say where they are with --weights FILE"
        )
    return found


def write_extractors(folder: Path, extractors: Sequence[Extractor]) -> list[Path]:
    """Write what a photo's features need into a folder: a description, and copies of weights that are safetensors.

    Returns:
        The files.
    """
    described, files = [], []
    for number, each in enumerate(extractors):
        name = None
        if each.weights is not None and each.weights.suffix == _SAFE:
            name = f"features-{number}{_SAFE}"
            with atomic_path(folder / name) as temporary:
                shutil.copyfile(each.weights, temporary)
            files.append(folder / name)
        kept = {key: getattr(each, key) for key in ("weights_sha256", "channel_scale", "rows")}
        described.append(
            {**kept, "described": dict(each.described), "sizes": list(each.sizes.items()), "weights": name}
        )
    write_json(folder / FEATURES, described)
    return [*files, folder / FEATURES]


def read_extractors(folder: Path, given: Path | None = None, *, complete: bool = True) -> list[Extractor]:
    """Return what `write_extractors` wrote.

    Args:
        folder: where.
        given: weights that it does not have.
        complete: the weights have to be there.

    Raises:
        RecapError: a file is missing or damaged, or the kind of an extractor is not known.
    """
    path = folder / FEATURES
    check(path)
    found = []
    for each in read_json(path, list[_Described]):
        weights = folder / each.weights if each.weights else given
        if complete and weights is not None and not weights.is_file():
            raise MissingFeatures(f"{weights}: the weights that {path} names are not there; copy the folder again")
        settings = _settings(each.described, path)
        found.append(
            Extractor(
                store=path,
                settings=settings,
                described=each.described,
                weights_sha256=each.weights_sha256,
                weights=weights,
                channel_scale=each.channel_scale,
                sizes=dict(each.sizes),
                rows=each.rows,
            )
        )
    return found


def is_file(path: Path) -> bool:
    """Return whether there is such a file; no file can have a name that the system refuses."""
    try:
        return path.is_file()
    except OSError:
        return False
