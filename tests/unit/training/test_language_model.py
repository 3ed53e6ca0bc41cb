"""Language models on texts without pictures:
what is read and left out, training, resuming, and what is refused."""

import gzip
import json
import os
import signal
import zipfile

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from helpers.refusals import refused
from recap.core.errors import ConfigError, DamagedData, DataError, MissingData
from recap.data.caption_files import _of_scenes, read_texts, texts_outside
from recap.data.corpus import Caption, write_corpus
from recap.data.tokenizer import tokenize
from recap.data.vocabulary import build_vocabulary, load_vocabulary
from recap.runs.inputs import caption_tensor
from recap.settings.models import LanguageModel as Settings
from recap.training import language_model
from recap.training.language_model import pretrain_language_model, token_losses
from recap.training.loop import OptimizerStep

pytestmark = pytest.mark.seconds

SIZES = {
    "d_model": 16,
    "heads": 2,
    "d_feed_forward": 24,
    "layers": 2,
    "positions": 24,
    "validation_texts": 8,
}
SPEC = Settings(
    scenes={"count": 30, "max_per_kind": 2, "seed": 5},
    epochs=3,
    learning_rate=0.01,
    warmup=2,
    texts_per_batch=16,
    dropout=0.2,
    **SIZES,
)
OWN = "Two dogs play, in the park."


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    scenes = _of_scenes(Settings(scenes={"count": 40, "seed": 99}).scenes)
    texts = [OWN, *(" ".join(tokenize(text)) for text in scenes)]
    rows = [
        Caption(n, f"{n}.png", "train", n, text, tokenize(text)) for n, text in enumerate(texts)
    ]
    write_corpus(
        rows, folder / "corpus.parquet", dataset="x", kind="karpathy", source_sha256="0" * 64
    )
    rule = {"min_count": 1, "max_length": 20, "splits": "train"}
    build_vocabulary(
        corpus=folder / "corpus.parquet", rule=rule, inputs=folder, out=folder / "vocabulary.json"
    )
    return folder


def pretrain(files, folder, spec=SPEC):
    out = folder / "lm.safetensors"
    pretrain_language_model(
        spec=spec,
        corpus=files / "corpus.parquet",
        vocabulary=files / "vocabulary.json",
        inputs=files,
        device="cpu",
        threads=1,
        state=folder / "state",
        out=out,
    )
    return out


def test_texts_of_every_form_are_read(tmp_path):
    (tmp_path / "a.txt").write_text("A dog.\nA cat.\n")
    with gzip.open(tmp_path / "b.tsv.gz", "wt") as file:
        file.write("A bird.\thttp://x/1\nA fish.\thttp://x/2\n")
    coco = {"annotations": [{"caption": "A horse."}], "images": []}
    (tmp_path / "captions_c.json").write_text(json.dumps(coco))
    with zipfile.ZipFile(tmp_path / "d.zip", "w") as archive:
        archive.writestr("annotations/captions_val2017.json", json.dumps(coco))
        archive.writestr("annotations/instances_val2017.json", "{}")
    found = [
        [tokenize(text) for text in read_texts(tmp_path / name)] for name in ("a.txt", "b.tsv.gz")
    ]
    assert found == [[["a", "dog"], ["a", "cat"]], [["a", "bird"], ["a", "fish"]]]
    assert [*read_texts(tmp_path / "captions_c.json"), *read_texts(tmp_path / "d.zip")] == [
        "A horse."
    ] * 2


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("missing.txt", None, MissingData),
        ("a.csv", b"x", DataError),
        ("a.txt.gz", b"no gzip", DamagedData),
        ("captions_a.json", b'{"annotations": [{"text": 1}]}', DataError),
    ],
)
def test_broken_files_of_texts_are_refused(tmp_path, name, content, kind):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with refused(kind, name):
        list(read_texts(tmp_path / name))


def test_captions_of_the_data_set_and_duplicates_are_left_out(files, tmp_path):
    (tmp_path / "a.txt").write_text(
        "two dogs play in the PARK\nA cat.\na cat\n...\nA bird's nest\n"
    )
    spec = Settings(texts=["a.txt"])
    found = texts_outside(spec, corpus=files / "corpus.parquet", inputs=tmp_path)
    assert (found.tokens, found.read, found.in_corpus) == (
        [["a", "cat"], ["a", "birds", "nest"]],
        5,
        1,
    )
    (tmp_path / "a.txt").write_text(OWN)
    with refused(DataError, "1 texts", "corpus.parquet", "`texts`"):
        texts_outside(spec, corpus=files / "corpus.parquet", inputs=tmp_path)


def test_a_language_model_learns_and_says_what_it_was_made_of(files, tmp_path):
    out = pretrain(files, tmp_path, SPEC.model_copy(update={"epochs": 12}))
    words = load_vocabulary(files / "vocabulary.json")
    with safe_open(out, "pt") as file:
        assert json.loads(file.metadata()["language_model"]) == {
            "heads": 2,
            "vocabulary_hash": words.hash,
        }
        assert file.get_tensor("word_embedding.weight").shape == (len(words), 16)
    report = json.loads(out.with_suffix(".json").read_text())
    assert (
        report["perplexity"]
        == min(line["perplexity"] for line in report["history"])
        < 12
        < len(words) / 3
    )
    assert report["training_texts"] + 8 + report["texts_in_the_data_set"] <= report["texts_read"]
    assert (tmp_path / "SHA256SUMS").read_text().count("lm.") == 2


def test_a_stopped_training_continues_to_the_same_bits(files, tmp_path, monkeypatch):
    whole = pretrain(files, tmp_path / "whole")
    step, steps = OptimizerStep.__call__, []

    def stopped(self, batch, progress, **others):
        steps.append(progress.step + 1)
        if len(steps) == 7:
            os.kill(os.getpid(), signal.SIGTERM)
        return step(self, batch, progress, **others)

    monkeypatch.setattr(OptimizerStep, "__call__", stopped)
    with pytest.raises(SystemExit):
        pretrain(files, tmp_path / "broken")
    assert not (tmp_path / "broken" / "lm.safetensors").exists()
    again = pretrain(files, tmp_path / "broken")
    assert again.read_bytes() == whole.read_bytes()
    assert again.with_suffix(".json").read_bytes() == whole.with_suffix(".json").read_bytes()
    assert steps[6:8] == [7, 8]


@pytest.fixture
def losses():
    torch.manual_seed(0)
    sizes = {
        "d_model": 16,
        "heads": 2,
        "d_feed_forward": 24,
        "layers": 2,
        "positions": 24,
        "dropout": 0.0,
    }
    model = language_model.LanguageModel(vocabulary_size=40, **sizes).double()
    return lambda texts: token_losses(model, caption_tensor([[text] for text in texts]))


def test_padding_and_other_texts_of_a_batch_change_no_loss(losses):
    texts = [[5, 6, 7, 8, 9, 10], [11, 12], [13]]
    together = losses(texts)
    assert len(together) == 7 + 3 + 2  # each with its end
    alone = torch.cat([losses([text]) for text in texts])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=0)


def test_words_without_an_id_are_read_but_not_predicted(losses):
    unknown, known = (losses([text]) for text in ([5, 3, 6], [5, 7, 6]))
    assert (len(unknown), len(known)) == (3, 4)  # 5, 6 and the end; and 7
    torch.testing.assert_close(unknown[0], known[0])
    assert unknown[1] != known[2]  # what was read before 6 differs


def test_a_captioner_begins_with_it_and_another_vocabulary_is_refused(files, tmp_path):
    from helpers.model_cases import build_model
    from recap.models.images import InputSpec
    from recap.papers.visualgpt.settings import VisualGptModel

    out, words = pretrain(files, tmp_path), load_vocabulary(files / "vocabulary.json")
    sizes = {key: SIZES[key] for key in ("d_model", "heads", "d_feed_forward")}
    example = VisualGptModel.example().model_dump()
    config = VisualGptModel.model_validate(
        {**example, **sizes, "positions": 20, "pretrained": True}
    )
    model = build_model(config, InputSpec({"main": 5}, len(words), words, out))
    expected = load_file(out)["blocks.1.feed_forward.inner.weight"]
    assert torch.equal(model.decoder.blocks[1].feed_forward.inner.weight, expected)
    rule = {"min_count": 2, "max_length": 20, "splits": "train"}
    other = build_vocabulary(
        corpus=files / "corpus.parquet", rule=rule, inputs=files, out=tmp_path / "other.json"
    )
    with refused(ConfigError, "lm.safetensors", "--vocabulary"):
        build_model(config, InputSpec({"main": 5}, len(other), other, out))
