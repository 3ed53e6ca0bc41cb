from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from helpers.generators import write_flickr
from helpers.refusals import refused
from recap.core.errors import DataError
from recap.data.corpus import build_corpus
from recap.data.vocabulary import UNK, Vocabulary, build_vocabulary, load_vocabulary

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
    for number in (-1, 6):
        with refused(DataError, f"id {number}", "vocabulary of 6"):
            vocabulary.decode([number])


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
    assert (loaded.words, loaded.rule, loaded.hash) == (vocabulary.words, vocabulary.rule, vocabulary.hash)
    # A golden: the hash names the words in every result, so it must never drift.
    assert vocabulary.hash == "3c3c88da16def511"


def test_splits_decide_what_is_counted(tmp_path):
    def only_in_test(content):
        content["images"][-1]["sentences"][0]["tokens"] = ["zebra"] * 6

    spec = {"kind": "karpathy", "annotations": "dataset.json", "images": ["images.zip"]}
    build_corpus(name="t", spec=spec, inputs=write_flickr(tmp_path, change=only_in_test), out=tmp_path)
    for splits, known in (("train", False), ("all", True)):
        rule = {"min_count": 6, "splits": splits, "max_length": 16}
        build_vocabulary(corpus=tmp_path / "corpus.parquet", rule=rule, inputs=Path(), out=tmp_path / "v.json")
        assert ("zebra" in load_vocabulary(tmp_path / "v.json").words) is known
