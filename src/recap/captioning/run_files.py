"""From the folder of a run to the files that it was made with; each is compared with the hash that the run recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from typing import Annotated

from pydantic import Field, FiniteFloat

from recap.captioning.extractors import FEATURES, Extractor, extractor_of, is_file, read_extractors
from recap.core.checksums import check
from recap.core.documents import read_json
from recap.core.errors import ConfigError, MissingFeatures, TrainingError
from recap.data.vocabulary.base import AnyVocabulary
from recap.data.vocabulary.words import load_vocabulary
from recap.features.store import FeatureStore
from recap.plan.labels import labels, row_setting
from recap.plan.result_tables import read_tables
from recap.runs.saved import CONFIG, check_inputs
from recap.settings.params import read_mapping, validate
from recap.settings.recipes import DecodingSettings
from recap.statistics.scores import read_metrics

VOCABULARY = "vocabulary.json"
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
    released: _Released | None = None
    decoding: DecodingSettings | None = None  # of a run that was not evaluated here
    name: str | None = None  # of a run that was exported


@dataclass(frozen=True)
class _Trained:
    """What is read of a run's `training.json`."""

    dataset: str
    best_val_cider_d: FiniteFloat


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

    Of a folder above several runs of one data set the best on validation is taken. `weights` are those of what made the
    features, which the stores say.
    """
    run = chosen_run(run)
    check(run / CONFIG)
    made_from: _MadeFrom = validate(_MadeFrom, read_mapping(run / CONFIG), str(run / CONFIG))
    spec = made_from.spec
    results = results_of(run)
    label = _label(results, f"{row_setting(vars(spec))}/{made_from.stage}")
    released = made_from.released
    name = f"{label} {released.file}" if released else f"{label} seed {spec.seed} {made_from.stage}"
    path = _vocabulary(run, vocabulary, results, spec)
    words, exported = load_vocabulary(path), (run / FEATURES).is_file() and not features
    stores = [] if exported else _stores(run, features, results, spec)
    check_inputs(run, path, words, stores)
    extractors = read_extractors(run, weights) if exported else [extractor_of(store, weights) for store in stores]
    return RunFiles(run, made_from.name or name, words, extractors, made_from.decoding or _decoding(run))


def chosen_run(folder: Path) -> Path:
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
    told: dict[Path, _Trained] = {run: read_json(run / "training.json", _Trained) for run in below}
    data_sets = sorted({values.dataset for values in told.values()})
    if len(data_sets) > 1:
        raise TrainingError(f"{folder}: holds runs on {', '.join(data_sets)}; name one run, such as {below[0]}")
    return max(below, key=lambda run: told[run].best_val_cider_d)


def _label(results: Path | None, series: str) -> str:
    """Return what the tables of the results call a run; the name of its model, where there are none."""
    tables = read_tables(results) if results else []
    return labels({table["table"]: table["rows"] for table in tables}, [series])[series]


def _vocabulary(run: Path, given: Path | None, results: Path | None, spec: _Spec) -> Path:
    own = run / VOCABULARY
    path = given or (own if own.is_file() else results / "data" / spec.dataset / VOCABULARY if results else None)
    if path is None or not is_file(path):
        looked = path or f"a folder `data` beside a folder `runs` that {run} lies in"
        raise ConfigError(f"{looked}: the vocabulary of {run} is not there; say where it is with --vocabulary FILE")
    return path


def _stores(run: Path, given: Sequence[Path], results: Path | None, spec: _Spec) -> list[FeatureStore]:
    """Return the feature stores of a run; they say how a photo becomes features."""
    paths = list(given)
    if not paths and results:
        folder, name = results / "features" / spec.dataset, spec.features
        whole = folder / f"{name}.h5"
        paths = [whole] if is_file(whole) else [_store(folder / f"{part}.h5") for part in name.split("+")]
    missing = [path for path in paths if not is_file(path)]
    if missing or not paths:
        looked = missing[0] if missing else f"a folder `features` beside a folder `runs` that {run} lies in"
        raise MissingFeatures(
            f"{looked}: the features of {run} are not there, which say how a photo becomes features; say where they "
            "are with --features FILE"
        )
    return [FeatureStore(path) for path in paths]


def _store(own: Path) -> Path:
    """Return a feature store, in the folder of its data set or of another, which has the same pictures."""
    shared = own.parent.parent.glob(f"*/{escape(own.name)}")
    return own if is_file(own) else next(iter(sorted(shared)), own)


def results_of(run: Path) -> Path | None:
    """Return the results that a run lies in, ``results/<profile>``; None if it lies elsewhere."""
    return next((above.parent for above in run.absolute().parents if above.name == "runs"), None)


def scores_of(run: Path) -> Path | None:
    """Return the folder of a run's scores beside it; None if there are none."""
    results = results_of(run)
    folder = results / "scores" / run.absolute().relative_to(results / "runs") if results else None
    return folder if folder and (folder / "metrics.json").is_file() else None


def _decoding(run: Path) -> DecodingSettings:
    """Return how the test captions of a run were decoded, which its scores say; without scores the defaults."""
    scores = scores_of(run)
    found = read_metrics(scores).decoding if scores else None
    return found if isinstance(found, DecodingSettings) else DecodingSettings()
