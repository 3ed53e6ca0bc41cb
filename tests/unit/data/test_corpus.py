"""The corpus file, and data sets in Karpathy's form."""

import json

import pyarrow.parquet as pq
import pytest

from helpers.generators import SENTENCES, karpathy, write_flickr
from recap.core.hashing import value_hash
from recap.data.corpus import SPLITS, Caption, Corpus, build_corpus, write_corpus
from recap.data.datasets.base import read_karpathy

SPEC = {"kind": "karpathy", "annotations": "dataset.json", "images": ["images.zip"]}


@pytest.fixture
def built(tmp_path):
    build_corpus(name="tiny", spec=SPEC, inputs=write_flickr(tmp_path / "in"), out=tmp_path / "out")
    return tmp_path / "out" / "corpus.parquet"


def test_everything_is_there(built):
    corpus = Corpus.read(built)
    assert (corpus.dataset, corpus.kind) == ("tiny", "karpathy")
    assert {split: corpus.image_ids(split) for split in SPLITS} == {
        "train": [0, 1, 2],
        "val": [3],
        "test": [4, 5],
    }
    assert corpus.captions("test") == {4: list(SENTENCES), 5: list(SENTENCES)}
    assert corpus.files()[5] == "0005_ab.jpg"
    assert next(corpus.token_lists("val")) == ["a", "dog", "runs"]
    assert list(corpus.token_lists())[6] == ["the", "brown", "dog", "is", "running"]
    assert corpus.image_ids_of([29, 0, 6]) == [5, 0, 1]
    assert corpus.split_hash == value_hash(
        [[0, "train"], [1, "train"], [2, "train"], [3, "val"], [4, "test"], [5, "test"]]
    )


PUBLISHED = {
    "dataset_flickr8k.json": "8,000",
    "dataset_flickr30k.json": "31,014",
    "mine.json": None,
}


@pytest.mark.parametrize("file", PUBLISHED)
def test_a_part_of_a_published_data_set_is_named_with_both_counts(tmp_path, caplog, file):
    (write_flickr(tmp_path / "in") / "dataset.json").rename(tmp_path / "in" / file)
    build_corpus(
        name="tiny",
        spec={**SPEC, "annotations": file},
        inputs=tmp_path / "in",
        out=tmp_path / "out",
    )
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    if PUBLISHED[file] is None:
        assert not warnings
    else:
        (warning,) = warnings
        assert "tiny" in warning and "6 images" in warning and PUBLISHED[file] in warning


def test_two_runs_give_the_same_bytes(built, tmp_path):
    build_corpus(name="tiny", spec=SPEC, inputs=tmp_path / "in", out=tmp_path / "again")
    assert (tmp_path / "again" / "corpus.parquet").read_bytes() == built.read_bytes()
    assert sorted(path.name for path in built.parent.iterdir()) == ["SHA256SUMS", "corpus.parquet"]


def test_rows_are_sorted_by_caption_id_whatever_the_order(tmp_path):
    rows = [
        Caption(number % 3, f"{number % 3}.jpg", SPLITS[number % 3], number, "a b", ["a", "b"])
        for number in range(9)
    ]
    for path, given in ((tmp_path / "a", rows), (tmp_path / "b", rows[::-1])):
        write_corpus(given, path, dataset="d", kind="k", source_sha256="0")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert Corpus.read(tmp_path / "a").caption_id.tolist() == list(range(9))


def test_line_breaks_emoji_and_control_characters(tmp_path):
    odd = (
        "two\r\ndogs\u2028run",
        "a dog \U0001f436\U0001f3fd runs",
        "a\x00 dog |||",
        "dog\x85",
        "plain dog",
    )

    def no_tokens(content):
        for image in content["images"]:
            for sentence in image["sentences"]:
                sentence["tokens"] = []

    inputs = write_flickr(tmp_path / "in", sentences=odd, change=no_tokens)
    build_corpus(name="odd", spec=SPEC, inputs=inputs, out=tmp_path)
    corpus = Corpus.read(tmp_path / "corpus.parquet")
    assert corpus.captions("val")[3] == ["two dogs run", odd[1], odd[2], "dog ", odd[4]]
    assert list(corpus.token_lists("val"))[:3] == [
        ["two", "dogs", "run"],
        ["a", "dog", "runs"],
        ["a", "dog"],
    ]


def stream(count):
    for number in range(count):
        yield Caption(number, f"{number}.jpg", SPLITS[number % 3], number, f"c {number}", ["c"])


def test_row_groups_change_nothing_that_is_read(tmp_path, monkeypatch):
    write_corpus(list(stream(20)), tmp_path / "one", dataset="d", kind="k", source_sha256="0")
    one = Corpus.read(tmp_path / "one")
    monkeypatch.setattr("recap.data.corpus.ROWS", 3)
    write_corpus(stream(20), tmp_path / "many", dataset="d", kind="k", source_sha256="0")
    many = Corpus.read(tmp_path / "many")
    assert pq.ParquetFile(tmp_path / "many").num_row_groups == 7
    hashes = [
        json.loads(pq.read_metadata(corpus.path).metadata[b"recap"]) for corpus in (one, many)
    ]
    assert hashes[0] == hashes[1]
    assert many.files() == one.files()
    for split in (None, *SPLITS):
        assert many.captions(split) == one.captions(split)
        assert many.rows(split).tolist() == one.rows(split).tolist()
        assert list(many.token_lists(split)) == list(one.token_lists(split))
    assert many.caption_id.tolist() == one.caption_id.tolist()
    wanted = [17, 2, 2, 9]
    assert many.column("caption").take(wanted) == one.column("caption").take(wanted)


def write(folder, content):
    path = folder / "dataset.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def test_coco_form_takes_cocoid_and_filepath(tmp_path):
    content = karpathy()
    content["images"][0] |= {"cocoid": 391895, "filepath": "val2014"}
    first = read_karpathy(write(tmp_path, content), merge_restval=True)[0]
    assert (first.image_id, first.file) == (391895, "val2014/0000_ab.jpg")


def test_restval_joins_train_or_is_left_out(tmp_path):
    content = karpathy()
    content["images"][0]["split"] = "restval"
    path = write(tmp_path, content)
    assert {row.split for row in read_karpathy(path, merge_restval=True) if row.image_id == 0} == {
        "train"
    }
    assert not [row for row in read_karpathy(path, merge_restval=False) if row.image_id == 0]


def test_absent_and_empty_tokens_come_from_the_raw_caption(tmp_path):
    content = karpathy()
    content["images"][0]["sentences"][0]["tokens"] = []
    del content["images"][0]["sentences"][1]["tokens"]
    captions = read_karpathy(write(tmp_path, content), merge_restval=True)
    assert captions[0].tokens == ["a", "dog", "runs"]
    assert captions[1].tokens == ["the", "brown", "dog", "is", "running"]
