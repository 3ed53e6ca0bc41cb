"""From the folder of a run to the files that it was made with; each is compared with the hash that the run recorded."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, FiniteFloat

from recap.core.errors import ConfigError, FeatureError, MissingFeatures, TrainingError
from recap.core.files.checksums import check
from recap.core.files.json_files import read_json
from recap.core.hashing import value_hash
from recap.data.vocabulary.base import AnyVocabulary
from recap.data.vocabulary.words import load_vocabulary
from recap.features.attributes import CHANNEL_SCALE
from recap.features.store import FeatureStore
from recap.plan import used_inputs
from recap.plan.labels import labels, row_setting
from recap.plan.result_tables import read_tables
from recap.runs.inputs import joint_maker
from recap.settings.decoding import DecodingSettings
from recap.settings.features import FEATURES, FeaturesConfig
from recap.settings.params import read_mapping, validate
from recap.statistics.scores import read_metrics

CONFIG, VOCABULARY = "config.yaml", "vocabulary.json"
_PLACES = "resources"  # folder of outside files, unless a profile says otherwise


_Folder = Annotated[str, Field(pattern="^[^/]+$")]  # each name is one folder of the run's path


@dataclass(frozen=True)
class _Spec:
    dataset: _Folder
    subset: _Folder
    features: _Folder
    model: _Folder
    recipe: _Folder
    seed: int


@dataclass(frozen=True)
class _Released:
    """What is read of the origin of released weights."""

    file: str


@dataclass(frozen=True)
class _MadeFrom:
    """What is read of a run's `config.yaml`."""

    spec: _Spec
    stage: _Folder
    vocabulary_hash: str
    feature_hash: str | None = None  # released weights lack it
    features_made_by: str | None = None  # so do runs of earlier versions
    released: _Released | None = None
    decoding: DecodingSettings | None = None  # of a run that was not evaluated here


@dataclass(frozen=True)
class _Trained:
    """What is read of a run's `training.json`."""

    dataset: str
    best_val_cider_d: FiniteFloat


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


@dataclass(frozen=True)
class RunFiles:
    """A run and what it was made with.

    Attributes:
        run: its folder.
        name: what messages call it.
        vocabulary: of its captions.
        extractors: of its features, in the order in which the model reads them.
        decoding: how its test captions were decoded; the defaults where it was not evaluated.
    """

    run: Path
    name: str
    vocabulary: AnyVocabulary
    extractors: Sequence[Extractor]
    decoding: DecodingSettings


def find_run_files(
    run: Path, *, vocabulary: Path | None = None, features: Sequence[Path] = (), weights: Path | None = None
) -> RunFiles:
    """Return a run and what it was made with; what is not named is looked for in the results that the run lies in.

    Args:
        run: the folder of a run, or one above several runs of one data set: the best on validation is taken.
        vocabulary, features: its vocabulary, and its feature stores, which say what made the features.
        weights: the weights of what made them.

    Raises:
        RecapError: something is missing, damaged or not what the run was made with; the sentence says which option
            names it.
    """
    run = chosen_run(run)
    check(run / CONFIG)
    made_from: _MadeFrom = validate(_MadeFrom, read_mapping(run / CONFIG), str(run / CONFIG))
    spec = made_from.spec
    results = next((above.parent for above in run.absolute().parents if above.name == "runs"), None)
    label = _label(results, f"{row_setting(vars(spec))}/{made_from.stage}")
    released = made_from.released
    name = f"{label} {released.file}" if released else f"{label} seed {spec.seed} {made_from.stage}"
    words = _vocabulary(run, vocabulary, results, spec, made_from.vocabulary_hash)
    stores = _stores(run, features, results, made_from)
    extractors = [_extractor(store, weights) for store in stores]
    return RunFiles(run, name, words, extractors, made_from.decoding or _decoding(run, results))


def chosen_run(folder: Path) -> Path:
    """Return a run's folder; of several below a folder that whose model is best on validation.

    Raises:
        TrainingError: there is no run, or there are runs of several data sets, whose scores do not compare.
    """
    if (folder / CONFIG).is_file():
        return folder
    if not folder.is_dir():
        raise TrainingError(
            f"{folder}: no such folder; name that of a run, which has config.yaml and model.safetensors"
        )
    below = sorted(path.parent for path in folder.rglob("training.json") if (path.parent / CONFIG).is_file())
    if not below:
        raise TrainingError(f"{folder}: no finished run is in it; name a folder with config.yaml and model.safetensors")
    told: dict[Path, _Trained] = {run: read_json(run / "training.json", _Trained) for run in below}
    data_sets = sorted({values.dataset for values in told.values()})
    if len(data_sets) > 1:
        raise TrainingError(f"{folder}: holds runs on {', '.join(data_sets)}; name one run, such as {below[0]}")
    return max(below, key=lambda run: told[run].best_val_cider_d)


def _label(results: Path | None, series: str) -> str:
    """Return what the tables of the results call a run; the name of its model, where there are none."""
    tables = read_tables(results) if results else []
    return labels({table["table"]: table["rows"] for table in tables}, [series])[series]


def _vocabulary(run: Path, given: Path | None, results: Path | None, spec: _Spec, expected: str) -> AnyVocabulary:
    own = run / VOCABULARY
    path = given or (own if own.is_file() else results / "data" / spec.dataset / VOCABULARY if results else None)
    if path is None or not _is_file(path):
        looked = path or f"a folder `data` beside a folder `runs` that {run} lies in"
        raise ConfigError(f"{looked}: the vocabulary of {run} is not there; say where it is with --vocabulary FILE")
    words = load_vocabulary(path)
    if words.hash != expected:
        raise ConfigError(
            f"{path}: not the vocabulary that {run} was trained with (hash {words.hash}, expected {expected}); give "
            "that one with --vocabulary FILE"
        )
    return words


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # no file can have such a name
        return False


def _stores(run: Path, given: Sequence[Path], results: Path | None, made_from: _MadeFrom) -> list[FeatureStore]:
    """Return the feature stores of a run; they say how a photo becomes features."""
    paths = list(given)
    if not paths and results:
        folder, name = results / "features" / made_from.spec.dataset, made_from.spec.features
        whole = folder / f"{name}.h5"
        paths = [whole] if _is_file(whole) else [folder / f"{part}.h5" for part in name.split("+")]
    missing = [path for path in paths if not _is_file(path)]
    if missing or not paths:
        looked = missing[0] if missing else f"a folder `features` beside a folder `runs` that {run} lies in"
        raise MissingFeatures(
            f"{looked}: the features of {run} are not there, which say how a photo becomes features; say where they "
            "are with --features FILE"
        )
    stores = [FeatureStore(path) for path in paths]
    expected, found = made_from.features_made_by, joint_maker(stores)
    if expected is None and made_from.feature_hash is None:  # the model's sizes are compared when it is built
        return stores
    if expected is None:
        hashes = [store.feature_hash for store in stores]
        expected, found = made_from.feature_hash, hashes[0] if len(hashes) == 1 else value_hash(hashes)
    if found != expected:
        raise FeatureError(
            f"{', '.join(map(str, paths))}: not the features that {run} was trained with (hash {found}, expected "
            f"{expected}); give those with --features FILE"
        )
    return stores


def _extractor(store: FeatureStore, given: Path | None) -> Extractor:
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
    kind = FEATURES.classes().get(str(described.get("kind")))
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


def _decoding(run: Path, results: Path | None) -> DecodingSettings:
    """Return how the test captions of a run were decoded, which its scores say; without scores the defaults."""
    if results is None:
        return DecodingSettings()
    scores = results / "scores" / run.absolute().relative_to(results / "runs")
    found = read_metrics(scores).decoding if (scores / "metrics.json").is_file() else None
    return found if isinstance(found, DecodingSettings) else DecodingSettings()
