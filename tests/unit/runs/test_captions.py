import json

import pytest

from helpers.generators import karpathy, write_flickr
from helpers.refusals import refused
from recap.core.errors import DataError
from recap.data.corpus import Corpus, build_corpus
from recap.data.vocabulary import Vocabulary, load_byte_pairs
from recap.runs.inputs import split_captions
from rehearsal.hub import write_byte_pairs

SPEC = {"kind": "karpathy", "annotations": "dataset.json", "images": ["images.zip"]}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Captions of one to nine words, whose ids are in another order than their images."""
    folder = tmp_path_factory.mktemp("data")
    inputs = write_flickr(folder / "in")
    content = karpathy()
    words = ["İstanbul", "A", "dog", "runs", "On", "the", "GRASS", "Today", "again"]
    for image in content["images"]:
        for number, sentence in enumerate(image["sentences"]):
            sentence["sentid"] = 1000 - 7 * sentence["sentid"]
            sentence["tokens"] = words[number : 2 * number + 1]
    (inputs / "dataset.json").write_text(json.dumps(content))
    build_corpus(name="tiny", spec=SPEC, inputs=inputs, out=folder / "out")
    return Corpus.read(folder / "out" / "corpus.parquet")


def caption_ids(corpus, split):
    return corpus.caption_id[corpus.rows(split)].tolist()


def one_by_one(corpus, vocabulary, ids):
    found = {}
    words = dict(zip(corpus.caption_id.tolist(), corpus.token_lists(), strict=True))
    for image, caption in zip(corpus.image_ids_of(ids), ids, strict=True):
        found.setdefault(image, []).append(vocabulary.encode(words[caption]))
    return found


@pytest.mark.parametrize("kind", ["words", "short words", "byte pairs"])
def test_ids_are_those_of_each_caption_alone(corpus, kind, tmp_path):
    if kind == "byte pairs":
        pairs = write_byte_pairs(tmp_path / "pairs", ["a dog runs on the grass"])
        vocabulary = load_byte_pairs(pairs.name, inputs=tmp_path, max_length=9)
    else:
        length = 3 if kind == "short words" else 16
        vocabulary = Vocabulary.build(
            list(corpus.token_lists("train"))[1:], min_count=2, max_length=length, splits="train"
        )
    ids = caption_ids(corpus, "train")
    assert dict(split_captions(corpus, vocabulary, "train", ids)) == one_by_one(
        corpus, vocabulary, ids
    )
    few = [ids[7], ids[2], ids[11]]
    assert dict(split_captions(corpus, vocabulary, "train", few)) == one_by_one(
        corpus, vocabulary, few
    )
    test = caption_ids(corpus, "test")
    assert dict(split_captions(corpus, vocabulary, "test")) == one_by_one(corpus, vocabulary, test)


def test_a_caption_that_is_not_for_training_is_named(corpus):
    vocabulary = Vocabulary(["dog"], {"min_count": 1, "max_length": 3, "splits": "train"})
    ids = [*caption_ids(corpus, "train"), caption_ids(corpus, "test")[0]]
    for wrong in (ids, [5000]):
        with refused(
            DataError, f"caption id {max(set(wrong) - set(caption_ids(corpus, 'train')))}"
        ):
            split_captions(corpus, vocabulary, "train", wrong)
