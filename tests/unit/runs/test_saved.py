"""A run is opened with the words and features that it was trained with,
and with no others, by all who open one."""

from functools import partial

import pyarrow.parquet as pq
import pytest

import recap
from helpers.feature_stores import ABOUT, store_of
from helpers.refusals import refused
from helpers.tiny_results import MODEL
from recap.cli.train import run_training
from recap.core.errors import ConfigError, FeatureError
from recap.data.corpus import Caption, Corpus, write_corpus
from recap.data.vocabulary import Vocabulary, load_vocabulary
from recap.evaluation.decode import caption_part, evaluate
from recap.evaluation.figures import CaptionedImages, DrawnModels
from recap.features.records import ImageFeatures
from recap.features.store import FeatureStore
from recap.settings.params import validate
from recap.settings.recipes import EvaluationSpec, Execution, ExecutionFile, RunSpec

pytestmark = pytest.mark.seconds
SPEC = validate(
    EvaluationSpec, {"evaluation": {"beam": 1, "max_length": 5, "metrics": ["BLEU"]}}, "spec"
)
COMPUTED = Execution(device="cpu", threads=1)


def evaluated(results, out, *, vocabulary, features, runs=1):
    files = {
        "corpus": results.data / "corpus.parquet",
        "vocabulary": vocabulary,
        "features": features,
    }
    evaluate(spec=SPEC, execution=COMPUTED, **files, model=[results.run] * runs, out=out / "scores")


def sent_to_the_server(results, out, *, vocabulary, features):
    rows = pq.read_table(results.data / "corpus.parquet").to_pylist()
    shown = [Caption(**{**row, "file": f"test2014/{row['file']}"}) for row in rows]
    write_corpus(shown, out / "c.parquet", dataset="tiny", kind="scenes", source_sha256="0")
    asked = {
        "spec": SPEC,
        "execution": COMPUTED,
        "part": "test2014",
        "partial": True,
        "corpus": out / "c.parquet",
    }
    caption_part(
        **asked,
        vocabulary=vocabulary,
        features=features,
        model=[results.run],
        out=out / "captions.json",
    )


def trained_further(results, out, *, vocabulary, features):
    names = {
        "dataset": "scenes",
        "subset": "full",
        "features": "tiny",
        "model": "transformer",
        "recipe": "short",
    }
    stage = {"epochs": 1, "learning_rate": 0.02, "images_per_batch": 8}
    spec = {**names, "seed": 1, "stage": "xe", "model_settings": MODEL, "stage_settings": stage}
    files = {"corpus": results.data / "corpus.parquet", "subset": results.data / "subset.json"}
    files |= {"vocabulary": vocabulary, "features": features, "init": results.run, "weights": None}
    execution = ExecutionFile(device="cpu", threads=1)
    run_training(
        validate(RunSpec, spec, "spec"), execution, **files, state=out / "state", out=out / "run"
    )


def drawn(results, out, *, vocabulary, features):
    files = {
        "corpus": results.data / "corpus.parquet",
        "vocabulary": vocabulary,
        "features": features,
    }
    models = DrawnModels(runs={"a": results.run}, **files, image_roots=[], heading="")
    CaptionedImages(models, "a", Corpus.read(files["corpus"]).image_ids("test")[:1], beam=1)


def captioned(results, out, *, vocabulary, features):
    recap.load(
        results.run,
        vocabulary=vocabulary,
        features=features,
        weights=results.backbone,
        device="cpu",
    )


USERS = [evaluated, sent_to_the_server, trained_further, drawn, captioned]


def remade(store, out, **attributes):
    """Copy a store, and say that something else made it."""
    own = FeatureStore(store)

    def one(image):
        return ImageFeatures(
            image, tuple(own.sizes([image])[0].tolist()), own.read([image])[0][0].numpy()
        )

    about = {key: own.attributes[key] for key in ABOUT} | attributes
    return store_of(
        out, own.ids.tolist(), one, dtype="float16", attributes=about, streams=(own.stream,)
    )


# others take their own all through the tests
@pytest.mark.parametrize("use", [partial(evaluated, runs=2), drawn])
def test_its_own_words_and_features_are_taken(results, tmp_path, use):
    use(results, tmp_path, vocabulary=results.data / "vocabulary.json", features=[results.store])


@pytest.mark.parametrize("use", USERS)
def test_the_same_words_in_another_order_are_refused(results, tmp_path, use):
    own = load_vocabulary(results.data / "vocabulary.json")
    words = tmp_path / "vocabulary.json"
    Vocabulary([*own.words[1:], own.words[0]], own.rule).save(words)
    with refused(ConfigError, str(words), str(results.run)):
        use(results, tmp_path, vocabulary=words, features=[results.store])


@pytest.mark.parametrize("use", USERS)
def test_features_of_another_backbone_of_equal_width_are_refused(results, tmp_path, use):
    other = remade(results.store, tmp_path / "other.h5", weights_sha256="0" * 64)
    with refused(FeatureError, str(other), str(results.run)):
        use(results, tmp_path, vocabulary=results.data / "vocabulary.json", features=[other])


@pytest.mark.parametrize("use", [sent_to_the_server, trained_further])
def test_features_that_others_made_may_come_from_other_files(results, tmp_path, use):
    other = remade(
        results.store, tmp_path / "other.h5", weights_sha256="unknown", extractor_hash="1"
    )
    use(results, tmp_path, vocabulary=results.data / "vocabulary.json", features=[other])
