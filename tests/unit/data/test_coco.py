"""COCO: split and words from plain annotations, names of both years, counts, server ids.

Pictures without captions.
"""

import pytest

from helpers.coco_files import LISTED, TRAIN, VAL, name_2014, spec, write_coco
from helpers.generators import jpeg, karpathy
from helpers.refusals import refused
from recap.core.errors import ConfigError, DataError, MissingData
from recap.data.corpus import Corpus, build_corpus
from recap.data.subsets import read_used, write_used
from rehearsal.archives import write_zip

pytestmark = pytest.mark.seconds


def corpus_of(folder, **changes):
    build_corpus(name="coco", spec=spec(**changes), inputs=folder, out=folder / "out")
    return Corpus.read(folder / "out" / "corpus.parquet")


def test_plain_annotations_and_lists_give_the_split(tmp_path):
    corpus = corpus_of(write_coco(tmp_path))
    assert corpus.image_ids("val") == [LISTED["val"]]
    assert corpus.image_ids("test") == [LISTED["test"]]
    assert corpus.image_ids("train") == sorted({*TRAIN, *VAL} - set(LISTED.values()))
    assert corpus.files()[9] == "train2014/COCO_train2014_000000000009.jpg"
    assert corpus.files()[42] == "val2014/COCO_val2014_000000000042.jpg"
    assert corpus.captions("val")[42][0] == "A dog's bowl, on grass."
    words = dict(zip(corpus.caption_id.tolist(), corpus.token_lists(), strict=True))
    assert words[100] == ["a", "dogs", "bowl", "on", "grass"]


def test_annotations_of_2017_with_pictures_of_2014(tmp_path):
    folder = write_coco(tmp_path)
    (folder / "test.txt").write_text(f"val2014/{name_2014(73)} 73\n")
    corpus = corpus_of(folder, annotations=["annotations_2017.zip"])
    assert corpus.files() == {number: f"val2014/{name_2014(number)}" for number in (42, 73, 74)}
    assert corpus.image_ids("val") == [42]


def test_without_lists_a_zip_of_several_gives_dataset_coco(tmp_path):
    folder = write_coco(tmp_path)
    content = karpathy()
    for image, number in zip(content["images"], (*TRAIN, *VAL), strict=False):
        image.update(
            cocoid=number, filepath=name_2014(number).split("_")[1], filename=name_2014(number)
        )
    write_zip(
        folder / "caption_datasets.zip",
        {"dataset_coco.json": content, "dataset_flickr8k.json": karpathy()},
    )
    corpus = corpus_of(folder, annotations=["caption_datasets.zip"], val_list=None, test_list=None)
    assert corpus.image_ids() == sorted((*TRAIN, *VAL)[:6])


CHANGES = {
    "image twice": (lambda t, v: v["images"].append(t["images"][0]), "image id 9 "),
    "caption id twice": (
        lambda t, v: v["annotations"][0].update(id=100),
        "caption id 100: is duplicated",
    ),
    "absent image": (
        lambda t, v: v["annotations"][0].update(image_id=7),
        "caption id 500 of image id 7",
    ),
    "no word": (
        lambda t, v: v["annotations"][0].update(caption=" ."),
        "image id 42, caption id 500: there is no word",
    ),
    "strange name": (lambda t, v: t["images"][0].update(file_name="../x.jpg"), "'../x.jpg'"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_spoilt_annotations(tmp_path, name):
    change, named = CHANGES[name]
    with refused(DataError, named):
        corpus_of(write_coco(tmp_path, change=change))
    assert not list(tmp_path.glob("out/*"))


@pytest.mark.parametrize(
    ("text", "kind", "named"),
    [
        (
            "val2014/COCO_val2014_000000000042.jpg 43\n",
            DataError,
            ["val.txt line 1", "000042.jpg 43"],
        ),
        (
            "val2014/COCO_val2014_000000000042.jpg 42\n" * 2,
            DataError,
            ["val.txt line 2", "000042.jpg 42"],
        ),
        (
            "val2014/COCO_val2014_000000000133.jpg 133\n",
            DataError,
            ["image id 133", "val list", "test list"],
        ),
        (None, MissingData, ["val.txt", "'val_list'"]),
    ],
)
def test_spoilt_lists(tmp_path, text, kind, named):
    folder = write_coco(tmp_path)
    (folder / "val.txt").unlink()
    if text is not None:
        (folder / "val.txt").write_text(text)
    with refused(kind, *named):
        corpus_of(folder)


def test_a_part_must_be_asked_for(tmp_path):
    folder = write_coco(tmp_path)
    with refused(DataError, "image id 133"):
        corpus_of(folder, annotations=["annotations_2017.zip"], partial=False)
    with refused(DataError, "`partial: true`"):
        corpus_of(folder, partial=False)
    with refused(ConfigError, "val_list", "test_list"):
        corpus_of(folder, test_list=None)
    with refused(DataError, "coco"):
        corpus_of(folder, annotations=["all2017.zip"])


IDS = (7, 3, 201)


def picture_name(number):
    return f"COCO_test2014_{number:012d}.jpg"


def corpus_of_pictures(folder, images=None, **changes):
    listed = (
        [{"id": number, "file_name": picture_name(number)} for number in IDS]
        if images is None
        else images
    )
    write_zip(folder / "info.zip", {"annotations/image_info_test2014.json": {"images": listed}})
    write_zip(
        folder / "test2014.zip",
        {f"test2014/{picture_name(number)}": jpeg(number) for number in IDS},
    )
    settings = {
        "kind": "coco_pictures",
        "listing": "info.zip",
        "images": ["test2014.zip"],
        "partial": True,
        **changes,
    }
    build_corpus(name="test", spec=settings, inputs=folder, out=folder / "out")
    return Corpus.read(folder / "out" / "corpus.parquet")


def test_each_picture_is_an_image_of_the_test_split_without_a_caption(tmp_path):
    corpus = corpus_of_pictures(tmp_path)
    assert corpus.files() == {number: f"test2014/{picture_name(number)}" for number in sorted(IDS)}
    assert corpus.image_ids("test") == sorted(IDS)
    assert corpus.captions("test") == {number: [""] for number in sorted(IDS)}
    with refused(DataError, "split 'train'"):
        corpus.image_ids("train")


@pytest.mark.parametrize(
    ("images", "named"),
    [
        ([{"id": 7, "file_name": picture_name(7)}] * 2, ["info.zip", "image id 7"]),
        ([{"id": 8, "file_name": picture_name(7)}], ["info.zip", f"'{picture_name(7)}'", "id 8"]),
        ([], ["info.zip", "images"]),
        (
            [{"id": 9, "file_name": picture_name(9)}],
            [f"test2014/{picture_name(9)}", "image id 9", "test2014.zip"],
        ),
    ],
)
def test_listings_that_are_refused(tmp_path, images, named):
    with refused(DataError, *named):
        corpus_of_pictures(tmp_path, images)
    assert not (tmp_path / "out").exists()


def test_all_pictures_of_a_part_are_used_whatever_the_subsets_are(tmp_path):
    build_corpus(name="coco", spec=spec(), inputs=write_coco(tmp_path), out=tmp_path / "out")
    write_used(
        corpora=[tmp_path / "out" / "corpus.parquet"],
        subsets=[],
        parts=["val2014"],
        out=tmp_path / "used.txt",
    )
    assert read_used(tmp_path / "used.txt") == sorted(VAL)
