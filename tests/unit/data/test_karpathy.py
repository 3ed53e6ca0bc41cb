import json
import zipfile

from helpers.generators import karpathy
from recap.data.datasets.base import read_karpathy


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
    assert {row.split for row in read_karpathy(path, merge_restval=True) if row.image_id == 0} == {"train"}
    assert not [row for row in read_karpathy(path, merge_restval=False) if row.image_id == 0]


def test_absent_and_empty_tokens_come_from_the_raw_caption(tmp_path):
    content = karpathy()
    content["images"][0]["sentences"][0]["tokens"] = []
    del content["images"][0]["sentences"][1]["tokens"]
    captions = read_karpathy(write(tmp_path, content), merge_restval=True)
    assert captions[0].tokens == ["a", "dog", "runs"]
    assert captions[1].tokens == ["the", "brown", "dog", "is", "running"]


def test_a_zip_that_holds_one_json(tmp_path):
    path = tmp_path / "dataset.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("deep/dataset_flickr8k.json", json.dumps(karpathy()))
        archive.writestr("__MACOSX/deep/._dataset_flickr8k.json", "x")
    assert len(read_karpathy(path, merge_restval=True)) == 30
