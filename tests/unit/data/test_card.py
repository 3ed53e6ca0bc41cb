import io

import pytest
from PIL import Image

from helpers.refusals import refused
from recap.core.errors import ConfigError, DataError
from recap.data import tokenizer
from recap.data.card import check_overlap, write_card
from recap.data.corpus import Caption, write_corpus


@pytest.fixture
def corpus(tmp_path):
    words = [f"w{n % 7}" for n in range(40)]
    rows = [
        Caption(
            n // 2,
            f"{n // 2}.jpg",
            "train" if n < 20 else "val" if n < 24 else "test",
            n,
            "text",
            words[: n + 1],
        )
        for n in range(40)
    ]
    rows.append(Caption(99, "99.jpg", "test", 99, "text", ["zebra"]))
    write_corpus(
        rows, tmp_path / "c.parquet", dataset="t", kind="karpathy", source_sha256="ab" * 32
    )
    return tmp_path / "c.parquet"


def test_lengths_images_and_unknown_words(corpus, tmp_path):
    write_card(name="t", corpus=corpus, counts=None, out=tmp_path / "card.md")
    text = (tmp_path / "card.md").read_text()
    assert "| train | 10 | 20 | 10.50 | 5.77 | 1 | 1 | 5 | 10 | 15 | 19 | 20 |" in text
    assert "| val | 2 | 4 | 22.50 | 1.12 | 21 |" in text
    # Seven words in training; of 521 in test one is none of them.
    assert "| 1 | 7 | 0.00 % | 0.00 % | 0.19 % |" in text
    assert "From the source" not in text


def test_an_installed_tagger_is_used_and_a_missing_one_explained(monkeypatch):
    text = tokenizer.shares([["a", "dog", "runs", "on", "green", "grass"]])
    assert text.startswith("Tagged by TextBlob") and "- nouns: 33.3 %" in text
    monkeypatch.setattr(tokenizer, "find_spec", lambda name: None)
    assert "No tagger is installed" in tokenizer.shares([["a", "dog"]])
    with refused(ConfigError, "no tagger is installed", "recap-captions[tagger]"):
        tokenizer.tag([["a", "dog"]])


def corpus_of(tmp_path, files, splits=("train", "train", "val", "test")):
    rows = [
        Caption(number, file, split, number, "a dog", ["a", "dog"])
        for number, (file, split) in enumerate(zip(files, splits, strict=True))
    ]
    write_corpus(rows, tmp_path / "c.parquet", dataset="d", kind="k", source_sha256="0")
    return tmp_path / "c.parquet"


def test_a_file_in_two_splits_is_named(tmp_path):
    with refused(DataError, "b (test) is b (train)"):
        check_overlap(corpus=corpus_of(tmp_path, "abcb"))


def test_equal_pictures_under_two_names_are_found_when_asked(tmp_path):
    for name, colour in zip("abcd", (1, 2, 3, 2), strict=True):
        content = io.BytesIO()
        Image.new("L", (8, 8), colour).save(content, "PNG")
        (tmp_path / name).write_bytes(content.getvalue())
    path = corpus_of(tmp_path, "abcd")
    check_overlap(corpus=path)
    with refused(DataError, "d (test) is b (train)"):
        check_overlap(corpus=path, images=[tmp_path])


def test_an_image_in_two_splits_or_a_caption_id_twice_is_never_written(tmp_path):
    def write(*rows):
        captions = [
            Caption(image, "a", split, caption, "a", ["a"]) for image, split, caption in rows
        ]
        write_corpus(captions, tmp_path / "x.parquet", dataset="d", kind="k", source_sha256="0")

    with refused(DataError, "image id 1", "'train' and 'test'"):
        write((0, "train", 0), (1, "train", 1), (1, "test", 2))
    with refused(DataError, "caption id 1", "is duplicated"):
        write((0, "train", 0), (1, "train", 1), (2, "test", 1))
    with refused(DataError, "caption id 1", "comes after 3"):
        rows = (Caption(number, "a", "train", number, "a", ["a"]) for number in (3, 1))
        write_corpus(rows, tmp_path / "x.parquet", dataset="d", kind="k", source_sha256="0")
    assert list(tmp_path.iterdir()) == []
