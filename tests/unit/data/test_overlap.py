import io

from PIL import Image

from helpers.refusals import refused
from recap.core.errors import DataError
from recap.data.card import check_overlap
from recap.data.corpus import Caption, write_corpus


def corpus(tmp_path, files, splits=("train", "train", "val", "test")):
    rows = [
        Caption(number, file, split, number, "a dog", ["a", "dog"])
        for number, (file, split) in enumerate(zip(files, splits, strict=True))
    ]
    write_corpus(rows, tmp_path / "c.parquet", dataset="d", kind="k", source_sha256="0")
    return tmp_path / "c.parquet"


def test_a_file_in_two_splits_is_named(tmp_path):
    with refused(DataError, "b (test) is b (train)"):
        check_overlap(corpus=corpus(tmp_path, "abcb"))


def test_equal_pictures_under_two_names_are_found_when_asked(tmp_path):
    for name, colour in zip("abcd", (1, 2, 3, 2), strict=True):
        content = io.BytesIO()
        Image.new("L", (8, 8), colour).save(content, "PNG")
        (tmp_path / name).write_bytes(content.getvalue())
    path = corpus(tmp_path, "abcd")
    check_overlap(corpus=path)
    with refused(DataError, "d (test) is b (train)"):
        check_overlap(corpus=path, images=[tmp_path])


def test_an_image_in_two_splits_or_a_caption_id_twice_is_never_written(tmp_path):
    def write(*rows):
        captions = [Caption(image, "a", split, caption, "a", ["a"]) for image, split, caption in rows]
        write_corpus(captions, tmp_path / "x.parquet", dataset="d", kind="k", source_sha256="0")

    with refused(DataError, "image id 1", "'train' and 'test'"):
        write((0, "train", 0), (1, "train", 1), (1, "test", 2))
    with refused(DataError, "caption id 1", "is duplicated"):
        write((0, "train", 0), (1, "train", 1), (2, "test", 1))
    with refused(DataError, "image id 0", "'trian'"):
        write((0, "trian", 0))
    with refused(DataError, "d: ", "captions"):
        write()
    assert list(tmp_path.iterdir()) == []
