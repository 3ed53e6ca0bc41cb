import pytest

from helpers.refusals import refused
from recap.core.errors import ConfigError
from recap.data import card, tokenizer
from recap.data.card import count_splits, write_card
from recap.data.corpus import Caption, Corpus, write_corpus


@pytest.fixture
def corpus(tmp_path):
    words = [f"w{n % 7}" for n in range(40)]
    rows = [
        Caption(n // 2, f"{n // 2}.jpg", "train" if n < 20 else "val" if n < 24 else "test", n, "text", words[: n + 1])
        for n in range(40)
    ]
    rows.append(Caption(99, "99.jpg", "test", 99, "text", ["zebra"]))
    write_corpus(rows, tmp_path / "c.parquet", dataset="t", kind="karpathy", source_sha256="ab" * 32)
    return tmp_path / "c.parquet"


def test_lengths_images_and_unknown_words(corpus, tmp_path):
    write_card(name="t", corpus=corpus, counts=None, out=tmp_path / "card.md")
    text = (tmp_path / "card.md").read_text()
    assert "| train | 10 | 20 | 10.50 | 5.77 | 1 | 1 | 5 | 10 | 15 | 19 | 20 |" in text
    assert "| val | 2 | 4 | 22.50 | 1.12 | 21 |" in text
    # Seven words in training; of 521 in test one is none of them.
    assert "| 1 | 7 | 0.00 % | 0.00 % | 0.19 % |" in text
    assert "From the source" not in text


def test_a_sample_is_spread_evenly(corpus, monkeypatch):
    table = Corpus.read(corpus)
    whole = count_splits(table)
    monkeypatch.setattr(card, "TAGGED", 5)
    for split, counted in count_splits(table).items():
        assert counted.sample == whole[split].sample[::9]  # of 41 captions


def test_an_installed_tagger_is_used_and_a_missing_one_explained(monkeypatch):
    monkeypatch.setattr(tokenizer, "_spacy", lambda: None)
    text = tokenizer.shares([["a", "dog", "runs", "on", "green", "grass"]])
    assert text.startswith("Tagged by TextBlob") and "- nouns: 33.3 %" in text
    monkeypatch.setattr(tokenizer, "_textblob", lambda: None)
    assert "No tagger is installed" in tokenizer.shares([["a", "dog"]])
    with refused(ConfigError, "no tagger is installed", "recap[tagger]"):
        tokenizer.needed_tagger()
