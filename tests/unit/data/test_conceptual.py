"""The corpus of Conceptual Captions, from TSVs and downloads."""

import shutil

import pytest

from helpers.conceptual_web import write_conceptual, write_tsv
from helpers.refusals import refused
from recap.core.errors import DataError
from recap.data.card import check_overlap
from recap.data.corpus import SPLITS, Corpus, build_corpus
from recap.data.datasets.conceptual import TEST_IDS, Record, read_records
from recap.data.datasets.conceptual_download import write_records
from recap.data.files.images import ImageSource

SPEC = {
    "kind": "conceptual",
    "train": "train.tsv",
    "validation": "validation.tsv",
    "images": "images",
    "val_pairs": 4,
}
TRAIN = ["404" if number in (3, 11) else "ok" for number in range(20)]


@pytest.fixture(scope="module")
def fetched(tmp_path_factory):
    return write_conceptual(tmp_path_factory.mktemp("cc"), train=TRAIN, test=["ok", "404", "ok"])


@pytest.fixture
def inputs(fetched, tmp_path):
    return shutil.copytree(fetched, tmp_path / "in")


def build(inputs, out, **changes):
    build_corpus(name="cc", spec={**SPEC, **changes}, inputs=inputs, out=out)
    return Corpus.read(out / "corpus.parquet")


def refuses(inputs, *named, **changes):
    with refused(DataError, *named):
        build(inputs, inputs / "out", **changes)
    assert not (inputs / "out" / "corpus.parquet").exists()


def test_rows_with_a_picture_become_one_caption_each(inputs, tmp_path):
    corpus = build(inputs, tmp_path / "out")
    ids = {split: corpus.image_ids(split) for split in SPLITS}
    assert ids["test"] == [TEST_IDS, TEST_IDS + 2]
    assert len(ids["val"]) == 4
    assert sorted(ids["train"] + ids["val"]) == [
        number for number in range(20) if number not in (3, 11)
    ]
    assert corpus.caption_id.tolist() == corpus.image_ids()
    assert corpus.captions("test")[TEST_IDS + 2] == ["photo 2 of a dog ."]
    assert list(corpus.token_lists())[corpus.image_ids().index(5)] == [
        "photo",
        "5",
        "of",
        "a",
        "dog",
    ]
    source = ImageSource([inputs / "images"])
    assert source.open_rgb(corpus.files()[19]).size == (32, 40)
    assert source.missing(corpus.files().values()) == []
    assert check_overlap(corpus=corpus.path, images=[inputs / "images"]) == {
        "train": 14,
        "val": 4,
        "test": 2,
    }


def test_the_validation_draw_is_golden_and_depends_on_the_seed(inputs, tmp_path):
    draws = [build(inputs, tmp_path / str(seed), seed=seed).image_ids("val") for seed in (0, 1)]
    assert draws == [[0, 2, 8, 17], [1, 2, 5, 8]]
    first = (tmp_path / "0" / "corpus.parquet").read_bytes()
    build(inputs, tmp_path / "again")
    assert (tmp_path / "again" / "corpus.parquet").read_bytes() == first


def test_a_training_url_of_the_test_split_is_left_out(inputs, tmp_path):
    test_url = [
        line.split("\t")[1] for line in (inputs / "validation.tsv").read_text().splitlines()
    ][2]
    rows = [tuple(line.split("\t")) for line in (inputs / "train.tsv").read_text().splitlines()]
    rows[0] = (rows[0][0], test_url)
    rows[1] = ("...", rows[1][1])
    write_tsv(inputs / "train.tsv", rows)
    survivors = inputs / "images" / "train" / "survivors.parquet"
    first, *others = read_records(survivors)
    first = Record(**{name: getattr(first, name) for name in Record.__slots__} | {"url": test_url})
    write_records(survivors, [[first, *others]])
    corpus = build(inputs, tmp_path / "out")
    assert not {0, 1} & set(corpus.image_ids())
    assert TEST_IDS + 2 in corpus.image_ids("test")


def with_sources(survivors, sources):
    """Give rows of a list of pictures, by their number, the hash of another fetched picture."""
    changed = []
    for record in read_records(survivors):
        values = {name: getattr(record, name) for name in Record.__slots__}
        changed.append(
            Record(**values | {"source_sha256": sources.get(record.row, record.source_sha256)})
        )
    write_records(survivors, [changed])


def test_a_picture_that_five_rows_share_is_what_a_host_answers_for_missing_ones(
    inputs, tmp_path, caplog
):
    lists = [inputs / "images" / part / "survivors.parquet" for part in ("train", "validation")]
    four = dict.fromkeys((0, 1, 2, 4), "cd" * 32)
    with_sources(lists[0], four | dict.fromkeys((5, 6, 7, 8), "ab" * 32))
    assert len(build(inputs, tmp_path / "four").image_ids()) == 20
    with_sources(lists[1], {0: "ab" * 32})
    corpus = build(inputs, tmp_path / "five")
    assert sorted(set(range(20)) - {*corpus.image_ids("train"), *corpus.image_ids("val")}) == [
        3,
        5,
        6,
        7,
        8,
        11,
    ]
    assert corpus.image_ids("test") == [TEST_IDS + 2]
    (line,) = [
        record.getMessage() for record in caplog.records if "some hosts" in record.getMessage()
    ]
    assert "cc: 5 rows" in line


def test_a_picture_that_is_gone_or_empty_is_named(inputs):
    picture = inputs / "images" / "train" / "00000" / "0000005.jpg"
    picture.write_bytes(b"")
    refuses(inputs, "0000005.jpg", "0 bytes")
    picture.unlink()
    refuses(inputs, "0000005.jpg")


def test_lists_and_tsvs_that_do_not_belong_together(inputs):
    tsv = inputs / "train.tsv"
    lines = tsv.read_text().splitlines(keepends=True)
    for changed in (lines[:-1], lines + lines[:1], [lines[1], lines[0], *lines[2:]]):
        tsv.write_text("".join(changed))
        refuses(inputs, "survivors.parquet", "row ")


def test_missing_and_damaged_lists_are_named(inputs):
    path = inputs / "images" / "validation" / "survivors.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    refuses(inputs, path)
    path.unlink()
    refuses(inputs, path)
