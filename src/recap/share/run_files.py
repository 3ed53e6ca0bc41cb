"""From a run to the files that it was made with:
in the results beside it, in a folder that was exported, on the hub.

Each file is compared with the hash that the run recorded.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from glob import escape
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, FiniteFloat

from recap.core.checksums import NAME as SUMS
from recap.core.checksums import check
from recap.core.documents import read_json, write_json
from recap.core.errors import ConfigError, FeatureError, MissingFeatures, RecapError, TrainingError
from recap.core.files import atomic_path, reading
from recap.data.vocabulary import AnyVocabulary, load_vocabulary
from recap.features.store import CHANNEL_SCALE, FeatureStore
from recap.plan.records import noted_inputs
from recap.plan.run import labels, row_setting
from recap.runs.folder import CONFIG, check_inputs
from recap.runs.inputs import hub_file
from recap.settings.features import FEATURES as KINDS
from recap.settings.features import FeaturesConfig
from recap.settings.params import read_mapping, validate
from recap.settings.recipes import DecodingSettings
from recap.statistics.results import read_tables
from recap.statistics.scores import read_metrics

VOCABULARY, FEATURES, WEIGHTS = "vocabulary.json", "features.json", "model.safetensors"
_INPUTS = "resources"  # folder of outside files, unless a profile says otherwise
# other files of weights may run code when they are read, and are not given away
_SAFE = ".safetensors"
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


def _beside(weights: Path) -> Path:
    if weights.name != str(weights) or weights.suffix != _SAFE:
        raise ValueError("is no name of a .safetensors file in the folder")
    return weights


@dataclass(frozen=True)
class Extractor:
    """What made the features of a store, also as `features.json` of an exported folder has it."""

    described: dict[str, Any]  # the settings and what the extractor added (preprocessing)
    weights_sha256: str
    # their file; None: from the hub or from a seed
    weights: Annotated[Path, AfterValidator(_beside)] | None
    channel_scale: str | None  # what brought its channels to one scale, in the store's words
    sizes: list[tuple[str, int]]  # name of every stream and its F, the main one first
    rows: int  # vectors of one image in the main stream
    store: Path = Path()  # the store that says so; of an exported folder its file

    @cached_property
    def settings(self) -> FeaturesConfig:
        """The settings of the extractor, from what a store says of it."""
        kind = KINDS.classes().get(str(self.described.get("kind")))
        if kind is None:
            raise FeatureError(
                f"{self.store}: made by an extractor of kind {self.described.get('kind')!r}, which "
                "is not known; name the module that registers it in RECAP_PLUGINS"
            )
        keys = {
            field.serialization_alias or name: name for name, field in kind.model_fields.items()
        }
        values = {keys[key]: value for key, value in self.described.items() if key in keys}
        return validate(kind, values, f"{self.store}: extractor")


@dataclass(frozen=True)
class RunFiles:
    """The folder of a run, what messages call it, and what it was made with."""

    run: Path
    name: str
    vocabulary: AnyVocabulary
    extractors: Sequence[Extractor]  # of its features, in the order in which the model reads them
    decoding: DecodingSettings  # of its test captions; the defaults where it was not evaluated


def find_run_files(
    run: Path,
    *,
    vocabulary: Path | None = None,
    features: Sequence[Path] = (),
    weights: Path | None = None,
) -> RunFiles:
    """Return a run and what it was made with;
    what is not named is looked for in the results that the run lies in.

    Of a folder above several runs of one data set the best on validation is taken. `weights` are
    those of what made the features, which the stores say.
    """
    run = _chosen_run(run)
    check(run / CONFIG)
    made_from: _MadeFrom = validate(_MadeFrom, read_mapping(run / CONFIG), str(run / CONFIG))
    spec = made_from.spec
    results = results_of(run)
    if vocabulary is None and (run / VOCABULARY).is_file():
        vocabulary = run / VOCABULARY
    elif vocabulary is None and results is not None:
        vocabulary = results / "data" / spec.dataset / VOCABULARY
    vocabulary = _present(vocabulary, run, "vocabulary", ConfigError)
    loaded = load_vocabulary(vocabulary)
    if (run / FEATURES).is_file() and not features:  # an exported folder
        check_inputs(run, vocabulary, loaded, [])
        extractors = _read_extractors(run, weights)
    else:
        paths: Sequence[Path | None] = features or _store_paths(spec, results) or [None]
        stores = [FeatureStore(_present(path, run, "features", MissingFeatures)) for path in paths]
        check_inputs(run, vocabulary, loaded, stores)
        extractors = [extractor_of(store, weights) for store in stores]
    name = made_from.name or _name(made_from, results)
    return RunFiles(run, name, loaded, extractors, _decoding(run, made_from))


def _name(made_from: _MadeFrom, results: Path | None) -> str:
    """Return what a run is called: its row in the tables of its results, seed and stage."""
    spec = made_from.spec
    series = f"{row_setting(vars(spec))}/{made_from.stage}"
    tables = read_tables(results) if results else []
    label = labels({each.table: map(vars, each.rows) for each in tables}, [series])[series]
    if made_from.released:
        return f"{label} {made_from.released.file}"
    return f"{label} seed {spec.seed} {made_from.stage}"


def _decoding(run: Path, made_from: _MadeFrom) -> DecodingSettings:
    """Return how captions of a run are decoded: as its test captions were, if there are any."""
    if made_from.decoding is not None:
        return made_from.decoding
    scores = scores_of(run)
    decoding = read_metrics(scores).decoding if scores else None
    return decoding if isinstance(decoding, DecodingSettings) else DecodingSettings()


def _chosen_run(folder: Path) -> Path:
    """Return a run's folder; of several below a folder that whose model is best on validation."""
    if (folder / CONFIG).is_file():
        return folder
    trained: dict[Path, _Trained] = {}
    for file in sorted(folder.rglob("training.json")):
        if (file.parent / CONFIG).is_file():
            trained[file.parent] = read_json(file, _Trained)
    data_sets = sorted({values.dataset for values in trained.values()})
    if len(data_sets) != 1:
        raise TrainingError(
            f"{folder}: holds finished runs on {', '.join(data_sets) or 'no data set'}; name a "
            f"folder with {CONFIG} and {WEIGHTS}"
        )
    return max(trained, key=lambda run: trained[run].best_val_cider_d)


def _present(path: Path | None, run: Path, what: str, kind: type[RecapError]) -> Path:
    """Return the file of a run's vocabulary or features, which must be there."""
    with reading(path or run, ConfigError):  # the system may refuse a name
        is_file = path is not None and path.is_file()
    if path is None or not is_file:
        place = path or f"the results that {run} lies in"
        raise kind(
            f"{place}: the {what} of {run} cannot be found there; say where with --{what} FILE"
        )
    return path


def _store_paths(spec: _Spec, results: Path | None) -> list[Path]:
    """Return a run's stores: of its data set, or of another with the same pictures."""
    if results is None:
        return []
    folder = results / "features" / spec.dataset
    with reading(folder, ConfigError):
        whole = folder / f"{spec.features}.h5"
        if whole.is_file():
            return [whole]
        stores = []
        for part in spec.features.split("+"):
            own = folder / f"{part}.h5"
            others = sorted(folder.parent.glob(f"*/{escape(own.name)}"))
            stores.append(own if own.is_file() or not others else others[0])
        return stores


def results_of(run: Path) -> Path | None:
    """Return the results that a run lies in, ``results/<profile>``; None if it lies elsewhere."""
    return next((above.parent for above in run.absolute().parents if above.name == "runs"), None)


def scores_of(run: Path) -> Path | None:
    """Return the folder of a run's scores beside it; None if there are none."""
    results = results_of(run)
    folder = results / "scores" / run.absolute().relative_to(results / "runs") if results else None
    return folder if folder and (folder / "metrics.json").is_file() else None


def extractor_of(store: FeatureStore, weights: Path | None) -> Extractor:
    """Return what made a store; without `weights`, the profile's are looked for."""
    extractor = Extractor(
        store=store.path,
        described=json.loads(store.attributes["extractor"]),
        weights_sha256=store.attributes["weights_sha256"],
        weights=weights,
        channel_scale=store.attributes.get(CHANNEL_SCALE),
        sizes=[(name, store.shape(name)[1]) for name in store.streams],
        rows=int(store.rows(store.ids[:1].tolist())[0]),
    )
    if weights is None:
        return replace(extractor, weights=_weights(extractor.settings, store.path))
    return extractor


def _weights(settings: FeaturesConfig, store: Path) -> Path | None:
    """Return the file of an extractor's weights, or None where it has none.

    Its hash is compared later.
    """
    name = getattr(settings, "weights", None)
    places = []
    if settings.trained_on_boxes():
        places.append(store.with_suffix(".backbone.safetensors"))
    elif name is None or settings.encoder is None or not settings.outside_files():
        return None
    else:
        above = store.absolute().parents  # features/<dataset>, features, results/<profile>, ...
        inputs = noted_inputs(above[2]) if len(above) > 2 else None
        if inputs:
            places.append(inputs / name)
        for root in (Path(), *above):
            places += [root / _INPUTS / name, root / name]
    path = next(filter(Path.is_file, places), None)
    if path is None:
        raise MissingFeatures(
            f"{places[0]}: the weights that {store} was made with are not there; say where they "
            "are with --weights FILE"
        )
    return path


def write_extractors(folder: Path, extractors: Sequence[Extractor]) -> list[Path]:
    """Write what a photo's features need: a description, and copies of safetensors."""
    described, files = [], [folder / FEATURES]
    for number, each in enumerate(extractors):
        values = asdict(each)
        del values["store"]
        values["weights"] = None
        if each.weights is not None and each.weights.suffix == _SAFE:
            values["weights"] = name = f"features-{number}{_SAFE}"
            with atomic_path(folder / name) as temporary:
                shutil.copyfile(each.weights, temporary)
            files.append(folder / name)
        described.append(values)
    write_json(folder / FEATURES, described)
    return files


def _read_extractors(folder: Path, weights: Path | None) -> list[Extractor]:
    """Return what `write_extractors` wrote; `weights` are those that the folder does not have."""
    extractors = []
    for each in _described(folder):
        file = folder / each.weights if each.weights else weights
        if file is not None and not file.is_file():
            raise MissingFeatures(
                f"{file}: weights of the extractor are not there; copy the folder again"
            )
        extractors.append(replace(each, weights=file, store=folder / FEATURES))
    return extractors


def _described(folder: Path) -> list[Extractor]:
    check(folder / FEATURES)
    return read_json(folder / FEATURES, list[Extractor])


def fetch_run(name: str) -> Path:
    """Return the cached folder of an exported run, ``hub:OWNER/NAME@REVISION``."""
    for file in (CONFIG, VOCABULARY, WEIGHTS, SUMS, FEATURES):
        folder = hub_file(name, file).parent
    for each in _described(folder):
        if each.weights:
            hub_file(name, str(each.weights))
    return folder
