"""Damaged files for each reader of what the project or a user writes: read, or refused in a
sentence.

They lie in folders without `SHA256SUMS`, so that the reader itself must notice.
"""

import gzip
import json
import random
import shutil

import numpy as np
import pytest
import yaml
from safetensors.numpy import save_file
from torch import nn

from helpers import mutate
from helpers.mutate import COUNT, as_file, mutated, mutated_values, outcomes
from helpers.score_files import make_table, write_scores
from helpers.tiny_workspace import ROOT
from recap.core import checksums
from recap.core.errors import RecapError
from recap.core.hashing import value_hash
from recap.data.caption_files import read_texts
from recap.data.vocabulary import Vocabulary, load_byte_pairs, load_vocabulary
from recap.models.check import check_models
from recap.models.gpt2 import LanguageModel
from recap.plan.profiles import row_config
from recap.plan.resolve import resolve
from recap.plan.run import row_runs
from recap.plan.single import single_run
from recap.runs.pretrained import METADATA, load_pretrained
from recap.settings import Profile
from recap.settings.models import MODELS
from recap.share.artifacts import problems
from recap.share.run_files import find_run_files
from recap.share.tracking_records import read_runs
from recap.statistics.scores import collect
from rehearsal.hub import Gpt2Sizes, gpt2_tensors, save_tokenizer, write_byte_pairs

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
PARAMS = ROOT / "tests" / "workflow" / "params"


def either(data, seed):
    """Half of the mutants stay JSON."""
    return (mutated, mutated_values)[seed % 2](data, seed)


def check(parse, original, change):
    mutate.check(parse, [original], change=change)


def test_texts_of_a_language_model(tmp_path):
    lines = "".join(f"a dög number {n}\n" for n in range(20)).encode()
    captions = {"annotations": [{"caption": "A dog."}, {"caption": "A cat."}], "images": []}
    for name, content, change in (
        ("t.txt.gz", gzip.compress(lines, mtime=0), mutated),
        ("captions_c.json", json.dumps(captions).encode(), either),
    ):
        check(as_file(tmp_path / name, lambda path: list(read_texts(path))), content, change)


WORDS = Vocabulary(["a", "dog"], {"min_count": 1, "max_length": 9, "splits": "train"})
SIZES = {"d_model": 8, "heads": 2, "d_feed_forward": 12, "layers": 1, "positions": 5}


def test_metadata_of_a_language_model(tmp_path):
    decoder = LanguageModel(vocabulary_size=len(WORDS), dropout=0.0, **SIZES).decoder
    tensors = {name: value.numpy() for name, value in decoder.state_dict().items()}

    def parse(content):
        save_file(
            tensors,
            tmp_path / "m.safetensors",
            metadata={METADATA: content.decode("utf-8", "replace")},
        )
        load_pretrained(decoder, tmp_path / "m.safetensors", WORDS)

    check(parse, json.dumps({"heads": 2, "vocabulary_hash": WORDS.hash}).encode(), either)


RELEASED = Gpt2Sizes(SIZES["d_model"], SIZES["d_feed_forward"], SIZES["layers"], SIZES["positions"])


def released_gpt2():
    """Names and shapes of a GPT-2 of one block, as the release has them."""
    return {name: [*array.shape] for name, array in gpt2_tensors(len(WORDS), RELEASED).items()}


def test_tensors_of_a_released_gpt2(tmp_path):
    decoder = LanguageModel(vocabulary_size=len(WORDS), dropout=0.0, **SIZES).decoder
    odd = [[], [0], [1], [2], [3], [24], [8, 24], [24, 8], [2, 2, 2], [1] * 9]
    kinds = (np.float16, np.float64, np.int64, np.bool_, np.complex64)

    def change(content, seed):
        chance, shapes = random.Random(seed), json.loads(content)
        for _ in range(chance.choice((1, 1, 2))):
            name = chance.choice(sorted(shapes))
            shapes[name] = chance.choice((*odd, None, *range(len(kinds)), "NaN"))
        return json.dumps(shapes).encode()

    def parse(content):
        tensors = {}
        for name, shape in json.loads(content).items():
            if isinstance(shape, list):
                tensors[name] = np.zeros(shape, np.float32)
            elif shape is not None:
                whole = np.full(released_gpt2()[name], np.nan if shape == "NaN" else 1, np.float32)
                tensors[name] = whole if shape == "NaN" else whole.astype(kinds[shape])
        save_file(tensors, tmp_path / "m.safetensors")
        load_pretrained(decoder, tmp_path / "m.safetensors", None)

    check(parse, json.dumps(released_gpt2()).encode(), change)


def test_byte_pairs_in_one_file(tmp_path):
    def use(path):
        pairs = load_byte_pairs(path.name, inputs=tmp_path, max_length=20)
        pairs.decode(pairs.encode(["dog", "é"]))
        pairs.save(tmp_path / "v.json")
        return load_vocabulary(tmp_path / "v.json")

    write_byte_pairs(tmp_path / "pairs", ["do dog dog"])
    save_tokenizer(tmp_path / "pairs", tmp_path / "tokenizer.json")
    check(
        as_file(tmp_path / "tokenizer.json", use),
        (tmp_path / "tokenizer.json").read_bytes(),
        either,
    )


def test_vocabularies_whose_hash_fits(tmp_path):
    def change(content, seed):
        values = json.loads(mutated_values(content, seed))
        if isinstance(values, dict) and {"rule", "words"} <= values.keys():
            values["hash"] = value_hash({"rule": values["rule"], "words": values["words"]})
        return json.dumps(values).encode()

    def use(path):
        words = load_vocabulary(path)
        words.decode(words.encode(["dog", "cat"]))
        words.decode(range(len(words)))

    WORDS.save(tmp_path / "v.json")
    check(as_file(tmp_path / "v.json", use), (tmp_path / "v.json").read_bytes(), change)


@pytest.fixture(scope="module")
def unlisted(results, tmp_path_factory):
    """Finished results, in which no list of hashes notices a change before the reader does."""
    folder = shutil.copytree(results.folder, tmp_path_factory.mktemp("unlisted") / "tiny")
    for file in folder.rglob(checksums.NAME):
        file.unlink()
    run = next(folder.glob("runs/**/training.json")).parent
    return folder, run, folder / "scores" / run.relative_to(folder / "runs")


@pytest.mark.parametrize("name", ["config.yaml", "training.json", "metrics.json"])
def test_files_of_a_run_that_captions_photos(unlisted, name):
    folder, run, scores = unlisted
    file = (scores if name == "metrics.json" else run) / name
    check_and_restore(file, lambda _: find_run_files(folder))


@pytest.mark.parametrize("name", ["config.yaml", "training.json", "metrics.json"])
def test_files_of_a_run_that_mlflow_shows(unlisted, name):
    folder, run, scores = unlisted
    file = (scores if name == "metrics.json" else run) / name
    check_and_restore(file, lambda _: read_runs("tiny", folder))


def check_and_restore(file, read):
    """Check a reader with mutants of one file of several.

    YAML is read as JSON, which is YAML too.
    """
    original = file.read_bytes()
    content = json.dumps(yaml.safe_load(original)).encode() if file.suffix == ".yaml" else original
    try:
        check(as_file(file, read), content, either)
    finally:
        file.write_bytes(original)


def test_scores_of_a_table(tmp_path):
    table = make_table()
    write_scores(tmp_path, table, [1])
    file = tmp_path / row_runs(table.rows[0], [1])[0].path / "metrics.json"
    check(as_file(file, lambda _: collect(table, [1], tmp_path, {}, {})), file.read_bytes(), either)


def test_a_damaged_list_of_models_that_were_built_is_made_again(tmp_path, monkeypatch):
    monkeypatch.setattr("recap.models.base.build_model", lambda *_: nn.Linear(2, 3))
    plan = resolve(Profile(name="p", tables=["tiny"], seeds=[1]), PARAMS)
    known = tmp_path / "known.json"
    check_models(plan, known)
    content = known.read_bytes()
    found = outcomes(
        as_file(known, lambda path: check_models(plan, path)), [content], COUNT, change=either
    )
    assert (found.failures, found.read) == ([], COUNT)
    known.write_text("{")
    check_models(plan, known)
    assert known.read_bytes() == content


def test_lists_of_hashes(tmp_path):
    (tmp_path / "a.txt").write_text("a")
    checksums.record(tmp_path / "a.txt")
    path = tmp_path / checksums.NAME
    content = path.read_bytes()

    def names(chosen):
        return list(problems(chosen.parent))

    found = outcomes(as_file(path, names), [content], COUNT, change=mutated)
    assert (found.failures, found.read) == ([], COUNT)


def test_values_of_the_option_set():
    def use(content):
        text = content.decode("utf-8", "replace")
        single_run(row_config(PARAMS, "tiny/zodiac", seed=1), stage=None, changes=[f"xe.{text}"])

    words = b"schedule={kind: noam, factor: 1.0e-3, warmup: 20, seen: 2001-11-02, list: [- - -]}"
    with pytest.raises(RecapError):
        use(words)
    found = outcomes(use, [words], COUNT)
    assert (found.failures, found.total) == ([], COUNT)


def test_settings_of_models_of_any_size(tmp_path):
    plan = resolve(Profile(name="p", tables=["tiny"], seeds=[1]), PARAMS)
    examples = [
        json.dumps(config.example().model_dump(mode="json")).encode()
        for config in MODELS.classes().values()
    ]
    (model,) = {run.model for run in plan.scored} & {"transformer"}
    folder = shutil.copytree(PARAMS, tmp_path / "params")

    def use(content):
        (folder / "models" / f"{model}.yaml").write_bytes(content)
        check_models(resolve(Profile(name="p", tables=["tiny"], seeds=[1]), folder))

    found = outcomes(use, examples, COUNT, change=either)
    assert (found.failures, found.total) == ([], COUNT)
