"""The real list of outside files: it parses, and it has what the data sets name."""

from pathlib import Path

import pytest

from recap.core.params import load_named
from recap.data.versions import read_versions

PARAMS = Path(__file__).resolve().parents[2] / "params"


@pytest.mark.parametrize("name", ["coco", "coco_plain", "coco_2017"])
def test_coco_can_be_fetched_whole(name):
    files = read_versions(PARAMS / "data_versions.csv")
    spec = load_named(PARAMS, "datasets", name)
    lists = [file for file in (spec.val_list, spec.test_list) if file is not None]
    needed = [*spec.annotations, *lists, *spec.images]
    assert {file for file in needed if file not in files} == set()
    assert all(files[file].hash and files[file].bytes for file in needed)


def test_karpathys_file_of_flickr30k_can_be_fetched():
    assert load_named(PARAMS, "datasets", "flickr30k").annotations in read_versions(PARAMS / "data_versions.csv")


def test_no_two_files_share_a_hash_or_an_address():
    files = read_versions(PARAMS / "data_versions.csv").values()
    for values in ([file.hash for file in files if file.hash], [url for file in files for url in file.urls]):
        assert len(set(values)) == len(values)
