"""Pictures of COCO without captions: their corpus, and listings that are refused."""

import pytest

from helpers.coco_files import VAL, spec, write_coco
from helpers.generators import jpeg
from helpers.refusals import refused
from recap.core.errors import DataError
from recap.data.corpus import Corpus, build_corpus
from recap.data.subsets import read_used, write_used
from rehearsal.archives import write_zip

IDS = (7, 3, 201)


def name(number):
    return f"COCO_test2014_{number:012d}.jpg"


def corpus_of(folder, images=None, **changes):
    listed = [{"id": number, "file_name": name(number)} for number in IDS] if images is None else images
    write_zip(folder / "info.zip", {"annotations/image_info_test2014.json": {"images": listed}})
    write_zip(folder / "test2014.zip", {f"test2014/{name(number)}": jpeg(number) for number in IDS})
    settings = {"kind": "coco_pictures", "listing": "info.zip", "images": ["test2014.zip"], "partial": True, **changes}
    build_corpus(name="test", spec=settings, inputs=folder, out=folder / "out")
    return Corpus.read(folder / "out" / "corpus.parquet")


def test_each_picture_is_an_image_of_the_test_split_without_a_caption(tmp_path):
    corpus = corpus_of(tmp_path)
    assert corpus.files() == {number: f"test2014/{name(number)}" for number in sorted(IDS)}
    assert corpus.image_ids("test") == sorted(IDS)
    assert corpus.captions("test") == {number: [""] for number in sorted(IDS)}
    with refused(DataError, "split 'train'"):
        corpus.image_ids("train")


@pytest.mark.parametrize(
    ("images", "named"),
    [
        ([{"id": 7, "file_name": name(7)}] * 2, ["info.zip", "image id 7"]),
        ([{"id": 8, "file_name": name(7)}], ["info.zip", f"'{name(7)}'", "id 8"]),
        ([], ["info.zip", "images"]),
        ([{"id": 9, "file_name": name(9)}], [f"test2014/{name(9)}", "image id 9", "test2014.zip"]),
    ],
)
def test_listings_that_are_refused(tmp_path, images, named):
    with refused(DataError, *named):
        corpus_of(tmp_path, images)
    assert not (tmp_path / "out").exists()


def test_all_pictures_of_a_part_are_used_whatever_the_subsets_are(tmp_path):
    build_corpus(name="coco", spec=spec(), inputs=write_coco(tmp_path), out=tmp_path / "out")
    write_used(corpora=[tmp_path / "out" / "corpus.parquet"], subsets=[], parts=["val2014"], out=tmp_path / "used.txt")
    assert read_used(tmp_path / "used.txt") == sorted(VAL)
