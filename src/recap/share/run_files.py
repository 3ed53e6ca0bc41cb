"""From a run to the files that it was made with: in the results beside it, in a folder that was exported, on the hub.

Each file is compared with the hash that the run recorded.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, FiniteFloat

from recap.core.checksums import NAME as SUMS
from recap.core.checksums import check
from recap.core.documents import read_json, write_json
from recap.core.errors import ConfigError, FeatureError, MissingFeatures, TrainingError, first_line
from recap.core.files import atomic_path
from recap.data.vocabulary import AnyVocabulary, load_vocabulary
from recap.features.attributes import CHANNEL_SCALE
from recap.features.store import FeatureStore
from recap.plan import records
from recap.plan.records import read_tables
from recap.plan.run import labels, row_setting
from recap.runs.folder import CONFIG, check_inputs
from recap.settings.base import HUB
from recap.settings.features import FEATURES as KINDS
from recap.settings.features import FeaturesConfig
from recap.settings.params import read_mapping, validate
from recap.settings.recipes import DecodingSettings
from recap.statistics.scores import read_metrics

VOCABULARY, FEATURES, WEIGHTS = "vocabulary.json", "features.json", "model.safetensors"
_INPUTS = "resources"  # folder of outside files, unless a profile says otherwise
_SAFE = ".safetensors"  # other files of weights may run code when they are read, and are not given away
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
    file: str


@dataclass(frozen=True)
class _MadeFrom:
    """What is read of a run's `config.yaml`."""

    spec: _Spec
    stage: _Folder
    released: _Released | None = None
    decoding: DecodingSettings | None = None  # of a run that was not evaluated here
    name: str | None = None  # of a run that was exported


@dataclass(frozen=True)
class _Trained:
    """What is read of a run's `training.json`."""

    dataset: str
    best_val_cider_d: FiniteFloat


@dataclass(frozen=True)
class _Described:
    """What `features.json` of an exported folder says of an extractor, as `Extractor` has it."""

    described: dict[str, Any]
    weights_sha256: str
    weights: Annotated[str, Field(pattern=r"^[\w-]+\.safetensors$")] | None
    channel_scale: str | None
    sizes: list[tuple[str, int]]
    rows: int


@dataclass(frozen=True)
class Extractor:
    """What made the features of a store."""

    store: Path  # the store, or the file of an exported folder, that says so
    settings: FeaturesConfig
    described: Mapping[str, Any]  # the settings and what the extractor added (preprocessing)
    weights_sha256: str
    weights: Path | None  # their file; None where they come from the hub or from a seed
    channel_scale: str | None  # what brought its channels to one scale, in the store's words
    sizes: Mapping[str, int]  # F of every stream, the main one first
    rows: int  # vectors of one image in the main stream


@dataclass(frozen=True)
class RunFiles:
    """The folder of a run, what messages call it, and what it was made with."""

    run: Path
    name: str
    vocabulary: AnyVocabulary
    extractors: Sequence[Extractor]  # of its features, in the order in which the model reads them
    decoding: DecodingSettings  # of its test captions; the defaults where it was not evaluated


def find_run_files(
    run: Path, *, vocabulary: Path | None = None, features: Sequence[Path] = (), weights: Path | None = None
) -> RunFiles:
    """Return a run and what it was made with; what is not named is looked for in the results that the run lies in.

    Of a folder above several runs of one data set the best on validation is taken. `weights` are those of what made the
    features, which the stores say.
    """
    run = _chosen_run(run)
    check(run / CONFIG)
    made_from: _MadeFrom = validate(_MadeFrom, read_mapping(run / CONFIG), str(run / CONFIG))
    spec, results = made_from.spec, results_of(run)
    series = f"{row_setting(vars(spec))}/{made_from.stage}"
    tables = {table["table"]: table["rows"] for table in read_tables(results)} if results else {}
    label = labels(tables, [series])[series]
    source = made_from.released.file if made_from.released else f"seed {spec.seed} {made_from.stage}"
    path = _vocabulary(run, vocabulary, results, spec)
    words, exported = load_vocabulary(path), (run / FEATURES).is_file() and not features
    stores = [] if exported else _stores(run, features, results, spec)
    check_inputs(run, path, words, stores)
    extractors = _read_extractors(run, weights) if exported else [extractor_of(store, weights) for store in stores]
    scores = scores_of(run)
    decoding = made_from.decoding or (read_metrics(scores).decoding if scores else None)
    decoding = decoding if isinstance(decoding, DecodingSettings) else DecodingSettings()
    return RunFiles(run, made_from.name or f"{label} {source}", words, extractors, decoding)


def _chosen_run(folder: Path) -> Path:
    """Return a run's folder; of several below a folder that whose model is best on validation."""
    if (folder / CONFIG).is_file():
        return folder
    if not folder.is_dir():
        raise TrainingError(
            f"{folder}: no such folder; name that of a run, which has config.yaml and model.safetensors"
        )
    below = sorted(path.parent for path in folder.rglob("training.json") if (path.parent / CONFIG).is_file())
    if not below:
        raise TrainingError(f"{folder}: no finished run is in it; name a folder with config.yaml and model.safetensors")
    trained: dict[Path, _Trained] = {run: read_json(run / "training.json", _Trained) for run in below}
    data_sets = sorted({values.dataset for values in trained.values()})
    if len(data_sets) > 1:
        raise TrainingError(f"{folder}: holds runs on {', '.join(data_sets)}; name one run, such as {below[0]}")
    return max(below, key=lambda run: trained[run].best_val_cider_d)


def _vocabulary(run: Path, named: Path | None, results: Path | None, spec: _Spec) -> Path:
    own = run / VOCABULARY
    path = named or (own if own.is_file() else results / "data" / spec.dataset / VOCABULARY if results else None)
    if path is None or not _is_file(path):
        place = path or f"a folder `data` beside a folder `runs` that {run} lies in"
        raise ConfigError(f"{place}: the vocabulary of {run} is not there; say where it is with --vocabulary FILE")
    return path


def _stores(run: Path, named: Sequence[Path], results: Path | None, spec: _Spec) -> list[FeatureStore]:
    """Return the feature stores of a run, in the folder of its data set or of another that has the same pictures."""
    paths = list(named)
    if not paths and results:
        folder = results / "features" / spec.dataset
        parts = [spec.features] if _is_file(folder / f"{spec.features}.h5") else spec.features.split("+")
        for own in (folder / f"{part}.h5" for part in parts):
            others = folder.parent.glob(f"*/{escape(own.name)}")
            paths.append(own if _is_file(own) else next(iter(sorted(others)), own))
    missing = [path for path in paths if not _is_file(path)]
    if missing or not paths:
        place = missing[0] if missing else f"a folder `features` beside a folder `runs` that {run} lies in"
        raise MissingFeatures(
            f"{place}: the features of {run} are not there, which say how a photo becomes features; say where they "
            "are with --features FILE"
        )
    return [FeatureStore(path) for path in paths]


def _is_file(path: Path) -> bool:
    """Return whether there is such a file; no file can have a name that the system refuses."""
    try:
        return path.is_file()
    except OSError:
        return False


def results_of(run: Path) -> Path | None:
    """Return the results that a run lies in, ``results/<profile>``; None if it lies elsewhere."""
    return next((above.parent for above in run.absolute().parents if above.name == "runs"), None)


def scores_of(run: Path) -> Path | None:
    """Return the folder of a run's scores beside it; None if there are none."""
    results = results_of(run)
    folder = results / "scores" / run.absolute().relative_to(results / "runs") if results else None
    return folder if folder and (folder / "metrics.json").is_file() else None


def extractor_of(store: FeatureStore, weights: Path | None) -> Extractor:
    """Return what made a store; without `weights`, its own are looked for where the profile has them."""
    described = json.loads(store.attributes["extractor"])
    settings = _settings(described, store.path)
    return Extractor(
        store=store.path,
        settings=settings,
        described=described,
        weights_sha256=store.attributes["weights_sha256"],
        weights=weights or _weights(settings, store.path),
        channel_scale=store.attributes.get(CHANNEL_SCALE),
        sizes={name: store.shape(name)[1] for name in store.streams},
        rows=int(store.rows(store.ids[:1].tolist())[0]),
    )


def _settings(described: Mapping[str, Any], source: Path) -> FeaturesConfig:
    """Return the settings of an extractor from what a store says of it."""
    kind = KINDS.classes().get(str(described.get("kind")))
    if kind is None:
        raise FeatureError(
            f"{source}: made by an extractor of kind {described.get('kind')!r}, which is not known; name the module "
            "that registers it in RECAP_PLUGINS"
        )
    keys = {field.serialization_alias or name: name for name, field in kind.model_fields.items()}
    values = {keys[key]: value for key, value in described.items() if key in keys}
    settings: FeaturesConfig = validate(kind, values, f"{source}: extractor")
    return settings


def _weights(settings: FeaturesConfig, store: Path) -> Path | None:
    """Return the file of an extractor's weights, or None where it has none; its hash is compared later."""
    name = getattr(settings, "weights", None)
    if settings.trained_on():
        places = [store.with_suffix(".backbone.safetensors")]
    elif name is None or settings.encoder is None or not settings.outside_files():
        return None
    else:
        above = store.absolute().parents  # features/<dataset>, features, results/<profile>, ...
        inputs = records.noted_inputs(above[2]) if len(above) > 2 else None
        places = [inputs / name] if inputs else []
        places += [root / folder / name for root in (Path(), *above) for folder in (_INPUTS, "")]
    path = next(filter(Path.is_file, places), None)
    if path is None:
        raise MissingFeatures(
            f"{places[0]}: the weights that {store} was made with are not there; say where they are with --weights FILE"
        )
    return path


def write_extractors(folder: Path, extractors: Sequence[Extractor]) -> list[Path]:
    """Write what a photo's features need: a description, and copies of weights that are safetensors."""
    described, files = [], [folder / FEATURES]
    for number, each in enumerate(extractors):
        name = None
        if each.weights is not None and each.weights.suffix == _SAFE:
            name = f"features-{number}{_SAFE}"
            with atomic_path(folder / name) as temporary:
                shutil.copyfile(each.weights, temporary)
            files.append(folder / name)
        values = {key: getattr(each, key) for key in ("described", "weights_sha256", "channel_scale", "rows")}
        described.append({**values, "sizes": list(each.sizes.items()), "weights": name})
    write_json(folder / FEATURES, described)
    return files


def _read_extractors(folder: Path, weights: Path | None) -> list[Extractor]:
    """Return what `write_extractors` wrote; `weights` are those that the folder does not have."""
    path = folder / FEATURES
    extractors = []
    for each in _described(path):
        file = folder / each.weights if each.weights else weights
        if file is not None and not file.is_file():
            raise MissingFeatures(f"{file}: the weights that {path} names are not there; copy the folder again")
        values: dict[str, Any] = {**vars(each), "weights": file, "sizes": dict(each.sizes)}
        extractors.append(Extractor(store=path, settings=_settings(each.described, path), **values))
    return extractors


def _described(path: Path) -> list[_Described]:
    check(path)
    described: list[_Described] = read_json(path, list[_Described])
    return described


def fetch_run(name: str) -> Path:
    """Return the folder of an exported run on the hub, ``hub:OWNER/NAME@REVISION``, in the hub's cache."""
    match = re.fullmatch(HUB + r"(\w[\w.-]*/\w[\w.-]*)@([0-9a-f]{40})", name)
    if match is None:  # the revision is required, so that the model stays what it is
        raise ConfigError(f"{name}: write {HUB}OWNER/NAME@REVISION with the 40 digits of a commit of the hub")
    repository, revision = match.groups()
    try:
        from huggingface_hub import hf_hub_download
    except ImportError as error:
        raise ConfigError(f"{name}: needs the package huggingface_hub; pip install 'recap[hub]'") from error

    def fetch(file: str) -> Path:
        try:
            return Path(hf_hub_download(repository, file, revision=revision))
        except Exception as error:  # the library raises a dozen kinds, its own and of its transports
            raise ConfigError(
                f"{name}: {file} cannot be fetched ({first_line(error)}); without a network, copy the folder and name "
                "its path"
            ) from error

    for file in (CONFIG, VOCABULARY, WEIGHTS, SUMS):
        fetch(file)
    features = fetch(FEATURES)
    for each in _described(features):
        if each.weights:
            fetch(each.weights)
    return features.parent
