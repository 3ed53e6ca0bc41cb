import io

import pytest
from PIL import Image

from recap.core.errors import DataError
from recap.data.corpus.corpus import Caption, write_corpus
from recap.data.corpus.overlap import check_overlap


def corpus(tmp_path, files, splits=("train", "train", "val", "test")):
    rows = [
        Caption(number, file, split, number, "a dog", ["a", "dog"])
        for number, (file, split) in enumerate(zip(files, splits, strict=True))
    ]
    write_corpus(rows, tmp_path / "c.parquet", dataset="d", kind="k", source_sha256="0")
    return tmp_path / "c.parquet"


def test_splits_that_share_nothing_are_counted(tmp_path):
    assert check_overlap(corpus=corpus(tmp_path, "abcd")) == {"train": 2, "val": 1, "test": 1}


def test_a_file_in_two_splits_is_named(tmp_path):
    with pytest.raises(DataError, match="the splits 'train' and 'test' share 1 files, first b; take them out"):
        check_overlap(corpus=corpus(tmp_path, "abcb"))


def test_equal_pictures_under_two_names_are_found_when_asked(tmp_path):
    for name, colour in zip("abcd", (1, 2, 3, 2), strict=True):
        content = io.BytesIO()
        Image.new("L", (8, 8), colour).save(content, "PNG")
        (tmp_path / name).write_bytes(content.getvalue())
    path = corpus(tmp_path, "abcd")
    check_overlap(corpus=path)
    with pytest.raises(DataError, match=r"1 pictures have the same bytes .* first d \(test\) is b \(train\)"):
        check_overlap(corpus=path, images=[tmp_path])


def test_an_image_in_two_splits_or_a_caption_id_twice_is_never_written(tmp_path):
    def write(*rows):
        captions = [Caption(image, "a", split, caption, "a", ["a"]) for image, split, caption in rows]
        write_corpus(captions, tmp_path / "x.parquet", dataset="d", kind="k", source_sha256="0")

    with pytest.raises(DataError, match="d: image id 1 is in the splits 'train' and 'test'; take it out of one"):
        write((0, "train", 0), (1, "train", 1), (1, "test", 2))
    with pytest.raises(DataError, match="d: caption id 1 is duplicated"):
        write((0, "train", 0), (1, "train", 1), (2, "test", 1))
    with pytest.raises(DataError, match="image id 0: no such split as 'trian'; did you mean 'train'"):
        write((0, "trian", 0))
    with pytest.raises(DataError, match="d: no captions to write"):
        write()
    assert list(tmp_path.iterdir()) == []
