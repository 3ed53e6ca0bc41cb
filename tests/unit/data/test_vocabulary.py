"""Vocabularies of words and of byte pairs, and captions as ids."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from helpers.generators import write_flickr
from helpers.refusals import refused
from recap.core.errors import DamagedData, MissingData
from recap.data.corpus import build_corpus
from recap.data.vocabulary import (
    BOS,
    EOS,
    PAD,
    UNK,
    BytePairVocabulary,
    CaptionIds,
    Vocabulary,
    build_vocabulary,
    load_byte_pairs,
    load_vocabulary,
    padded,
)
from recap.runs.inputs import caption_tensor
from recap.training.objectives import truncated_to_words
from rehearsal.hub import write_byte_pairs

LISTS = [["a", "Dog", "runs"], ["a", "dog"], ["a", "cat"], ["<eos>", "<eos>"]]


def test_words_by_falling_count_then_spelling():
    vocabulary = Vocabulary.build(LISTS, min_count=1, max_length=3, splits="train")
    assert vocabulary.words == ["a", "dog", "cat", "runs"]
    assert len(vocabulary) == 8
    assert vocabulary.rule == {"min_count": 1, "max_length": 3, "splits": "train"}


def test_encode_cuts_and_decode_stops():
    vocabulary = Vocabulary.build(LISTS, min_count=2, max_length=3, splits="train")
    assert vocabulary.encode(["A", "dog", "flies", "home"]) == [4, 5, UNK]
    assert vocabulary.encode(["<eos>"]) == [UNK]
    assert vocabulary.decode([1, 4, 5, 3, 0, 2, 4]) == "a dog <unk>"


@given(st.lists(st.lists(st.text("abcde", min_size=1, max_size=3), max_size=6), min_size=1))
def test_round_trip(lists):
    lists.append(["a"])
    vocabulary = Vocabulary.build(lists, min_count=1, max_length=6, splits="all")
    for tokens in lists:
        assert vocabulary.decode(vocabulary.encode(tokens)) == " ".join(tokens)


def test_saved_and_loaded(tmp_path):
    vocabulary = Vocabulary.build(LISTS, min_count=1, max_length=3, splits="train")
    vocabulary.save(tmp_path / "v.json")
    loaded = load_vocabulary(tmp_path / "v.json")
    assert (loaded.words, loaded.rule, loaded.hash) == (
        vocabulary.words,
        vocabulary.rule,
        vocabulary.hash,
    )
    # A golden: the hash names the words in every result, so it must never drift.
    assert vocabulary.hash == "3c3c88da16def511"


def test_splits_decide_what_is_counted(tmp_path):
    def only_in_test(content):
        content["images"][-1]["sentences"][0]["tokens"] = ["zebra"] * 6

    spec = {"kind": "karpathy", "annotations": "dataset.json", "images": ["images.zip"]}
    build_corpus(
        name="t", spec=spec, inputs=write_flickr(tmp_path, change=only_in_test), out=tmp_path
    )
    for splits, known in (("train", False), ("all", True)):
        rule = {"min_count": 6, "splits": splits, "max_length": 16}
        build_vocabulary(
            corpus=tmp_path / "corpus.parquet", rule=rule, inputs=Path(), out=tmp_path / "v.json"
        )
        assert ("zebra" in load_vocabulary(tmp_path / "v.json").words) is known


LINES = [
    "a dog runs on the grass",
    "the dog and the cat",
    "pneumothorax or effusion",
    "a cat sits on the mat",
] * 5


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_byte_pairs(tmp_path_factory.mktemp("bpe"), LINES)


@pytest.fixture(scope="module")
def pairs(folder):
    return load_byte_pairs(folder.name, inputs=folder.parent, max_length=40)


def test_ids_are_those_of_every_vocabulary_then_the_pieces(pairs, folder):
    numbers = json.loads((folder / "vocab.json").read_text())
    assert len(pairs) == len(numbers) + 1  # four special ids for three special pieces
    assert pairs.rows[PAD] == numbers["+="]
    assert pairs.rows[BOS] == numbers["<?"]
    assert pairs.rows[EOS] == pairs.rows[UNK] == numbers["<|endoftext|>"]
    assert sorted([*pairs.rows[:3], *pairs.rows[4:]]) == sorted(numbers.values())


@pytest.mark.parametrize(
    "words", [["the", "dog"], ["Straße", "élan", "\U0001f436"], ["pneumothorax"], ["a"] * 12]
)
def test_any_words_come_back(pairs, words):
    ids = pairs.encode(words)
    assert min(ids) > UNK
    assert pairs.decode([BOS, *ids, EOS, 9, PAD]) == " ".join(words).lower()


def test_the_length_is_counted_in_pieces_so_that_no_caption_loses_its_end(pairs):
    """VisualGPT's code cut the pieces at the number of words:
    words of several pieces pushed out the end token."""
    captions = [["rhododendron", "xylophones", "zigzag"], ["the", "dog"]]
    ids = [[pairs.encode(words)] for words in captions]
    assert len(ids[0][0]) > len(captions[0]) + 2
    tokens = caption_tensor(ids)
    for row, words in zip(tokens[:, 0].tolist(), captions, strict=True):
        assert row.count(EOS) == 1
        assert pairs.decode(row) == " ".join(words)
        assert set(row[row.index(EOS) + 1 :]) <= {PAD}


@pytest.mark.parametrize("length", [*range(1, 12), 24])
def test_long_captions_are_cut_between_words(folder, length):
    short = load_byte_pairs(folder.name, inputs=folder.parent, max_length=length)
    words = ["the", "zigzag", "dog", "xylophones"]
    ids = short.encode(words)
    assert 0 < len(ids) <= length
    assert any(short.decode(ids) == " ".join(words[:count]) for count in range(1, 5)) or length < 3
    whole = load_byte_pairs(folder.name, inputs=folder.parent, max_length=99).encode(words)
    assert whole[: len(ids)] == ids
    assert ids == whole or len(ids) > length - 11  # the longest word has ten pieces


def test_a_saved_vocabulary_needs_no_other_file(pairs, tmp_path):
    pairs.save(tmp_path / "v.json")
    again = load_vocabulary(tmp_path / "v.json")
    assert isinstance(again, BytePairVocabulary)
    assert (again.hash, again.rows, again.max_length) == (pairs.hash, pairs.rows, 40)
    assert again.encode(["the", "dog"]) == pairs.encode(["the", "dog"])


def test_a_tokenizer_json_with_truncation_of_its_own_is_not_cut(folder, pairs, tmp_path):
    tokenizer = Tokenizer.from_str(pairs.tokenizer.to_str())
    tokenizer.enable_truncation(2)
    tokenizer.enable_padding(length=30)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    loaded = load_byte_pairs("tokenizer.json", inputs=tmp_path, max_length=40)
    assert loaded.encode(["the", "zigzag", "dog"]) == pairs.encode(["the", "zigzag", "dog"])


def test_what_is_no_byte_pairs_is_refused(folder, pairs, tmp_path):
    with refused(MissingData, "none/vocab.json", "merges.txt"):
        load_byte_pairs("none", inputs=tmp_path, max_length=9)
    pairs.save(tmp_path / "v.json")
    text = (tmp_path / "v.json").read_text()
    (tmp_path / "v.json").write_text(text.replace('"max_length": 40', '"max_length": 41'))
    with refused(DamagedData, "v.json"):
        load_vocabulary(tmp_path / "v.json")


def test_the_truncation_of_visual_gpt_drops_the_last_pieces_and_the_end_of_long_captions(pairs):
    captions = [["rhododendron", "zigzag"], ["the", "dog"], ["a", "cat", "sits", "on"]]
    begins = torch.tensor(pairs.begins_word)
    tokens = caption_tensor([[pairs.encode(words)] for words in captions])
    cut = truncated_to_words(tokens, begins)
    assert cut.shape[-1] == 4 + 2  # the most words, <bos> and <eos>
    assert torch.equal(cut, tokens[..., :6])
    assert [EOS in row for row in cut[:, 0]] == [False, True, False]
    only_short = truncated_to_words(tokens[1:], begins)
    assert torch.equal(only_short, tokens[1:, :, :6])


def test_a_pinned_tokenizer_of_the_hub_is_that_of_its_commit(folder, pairs, tmp_path, monkeypatch):
    asked = []

    def download(repository, file, revision=None):
        asked.append((repository, file, revision))
        pairs.tokenizer.save(str(tmp_path / file))
        return str(tmp_path / file)

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    for name in ("hub:o/gpt2@" + "a" * 40, "hub:o/gpt2"):
        assert load_byte_pairs(name, inputs=tmp_path, max_length=40).encode(
            ["a", "dog"]
        ) == pairs.encode(["a", "dog"])
    assert asked == [("o/gpt2", "tokenizer.json", "a" * 40), ("o/gpt2", "tokenizer.json", None)]


CAPTIONS = {30: [[5, 6, 7], []], 4: [[8]], 11: [[9, 10], [4], [12, 13, 14, 15]]}


def test_a_token_ends_each_caption_and_nothing_else():
    held = CaptionIds.of(CAPTIONS)
    assert dict(held.ended(2)) == {
        image: [[*row, 2] for row in rows] for image, rows in CAPTIONS.items()
    }
    assert dict(held) == CAPTIONS


@pytest.mark.parametrize("image", [-1, 5, 10**9])
def test_an_unknown_image_is_named(image):
    with pytest.raises(KeyError, match=str(image)):
        CaptionIds.of(CAPTIONS).places([4, image])


def test_chosen_captions_are_padded():
    lengths, tokens = CaptionIds.of(CAPTIONS).flat(np.array([5, 1, 4]))
    assert padded(lengths, tokens, longest=4).tolist() == [[0] * 4, [9, 10, 0, 0], [5, 6, 7, 0]]
